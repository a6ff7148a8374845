defGroup('A', 'a') do |node|
  node.addApplication('iperf') do |app|
    app.setProperty('client', 'b')
    app.setProperty('dualtest', true)
  end
end
