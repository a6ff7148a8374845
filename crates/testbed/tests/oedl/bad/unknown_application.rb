defGroup('A', 'a') do |node|
  node.addApplication('test:app:nothing')
end
