defGroup('A', 'a') { |node| node.addApplication('otr2') }
onEvent(:ALL_UP) do
  group('A').resources[type: 'application', name: 'otr2'].state = :paused
end
