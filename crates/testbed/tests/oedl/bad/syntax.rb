defGroup('A', 'a') do |node|
  node.addApplication('otg2' do
end
