defGroup('A', 'a')
every(60.seconds) do
  group('A').eachNode { |n| n.up? }
end
