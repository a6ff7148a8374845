defGroup('A', 'a') { |node| node.addApplication('otr2') }
onEvent(:ALL_UP) do
  group('A').resources[type: 'wlan', name: 'w0'].state = :up
end
