defGroup('A', 'a')
do |node|
  node.addApplication('otg2') do |app|
    app.setProperty('udp:dst_port', 'many')
  end
end
