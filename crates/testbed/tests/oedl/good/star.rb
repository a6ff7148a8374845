# Several senders of one network and a receiver that listens at its own address.
defProperty('senders', 3, 'how many send')
defGroup('R', 'rx') do |node|
  node.addApplication('test:app:otr2') do |app|
    app.setProperty('udp:local_host', '10.1.0.1')
    app.setProperty('udp:local_port', 3000)
    app.measure('udp_in', :samples => 1)
  end
  node.net.w0.essid = 'm'
  node.net.w0.ip = '10.1.0.1'
end
defGroup('S', (1..property.senders.value).map { |number| "s#{number}" }) do |node|
  node.addApplication('test:app:otg2') do |app|
    app.setProperty('udp:dst_host', '10.1.0.1')
    app.setProperty('udp:dst_port', 3000)
    app.setProperty('cbr:size', 500)
    app.setProperty('cbr:rate', 200000)
  end
  node.net.w0.essid = 'm'
  node.net.w0.ip = '10.1.0.1%index%'
end
onEvent(:ALL_UP_AND_INSTALLED) do |event|
  group('R').startApplications
  wait 1
  group('S').startApplications
  wait 2
  allGroups.stopApplications
  Experiment.done
end
