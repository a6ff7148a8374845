# As the tutorials of OMF 5.4 have it: interfaces in a block, and a packet's size that changes while the sender runs.
defProperty('packetsize', 1024, 'octets of a packet')
defGroup('Sender', 'alice') do |node|
  node.addApplication('test:app:otg2') do |app|
    app.setProperty('udp:dst_host', '192.168.0.2')
    app.setProperty('udp:dst_port', 3000)
    app.setProperty('cbr:size', property.packetsize)
    app.setProperty('cbr:rate', 100_000)
    app.measure('udp_out', :samples => 1)
  end
end
defGroup('Receiver', 'bob') do |node|
  node.addApplication('test:app:otr2') do |app|
    app.setProperty('udp:local_port', 3000)
    app.measure('udp_in', :samples => 1)
  end
end
allGroups.net.w0 do |interface|
  interface.mode = 'adhoc'
  interface.type = 'g'
  interface.channel = '6'
  interface.essid = 'helloworld'
  interface.ip = '192.168.0.%index%'
end
onEvent(:ALL_UP_AND_INSTALLED) do |event|
  group('Receiver').startApplications
  group('Sender').startApplications
  wait 10
  property.packetsize = 256
  wait 10
  Experiment.done
end
