# Samson, Daneels, Braem and Blondia, "Overhead Analysis of Embedded Wireless Testbeds", CNBuB 2012,
# appendix D (OTG Aggregated): sums over 30 seconds.
# Each group stands as it is printed, a `do` in the line after defGroup(...) included. The paper leaves out the properties, the radio
# and the events; they follow its text: UDP datagrams of 1470 octets, 54*1024*1024 bit/s offered for 300 s, one wireless network.

defProperty('senderip', '192.168.0.1', 'Address of the sender')
defProperty('receiverip', '192.168.0.2', 'Address of the receiver')
defProperty('runtime', 300, 'Seconds that are sent')

defGroup('Sender', "omf.pats.alix1")
do |node|
  node.addApplication("test:app:otg2")
  do |app|
    app.setProperty('udp:local_host',
        property.senderip)
    app.setProperty('udp:dst_host',
        property.receiverip)
    app.setProperty('udp:dst_port',
        3000)
    app.setProperty('cbr:size', 1470)
    app.setProperty('cbr:rate',
        54*1024*1024)
    app.setProperty('generator', 'cbr'
        )
    app.measure('udp_out', :interval => 30) do |mp|
      mp.filter('pkt_length', 'sum')
      mp.filter('pkt_length', 'avg')
      mp.filter('ts', 'first')
      mp.filter('ts', 'last')
    end
  end
  node.net.w0.mode = "adhoc"
  node.net.w0.type = 'g'
  node.net.w0.channel = "6"
  node.net.w0.essid = "overhead"
  node.net.w0.ip = property.senderip
end

defGroup('Receiver', "omf.pats.alix2")
do |node|
  node.addApplication("test:app:otr2")
  do |app|
    app.setProperty('udp:local_host',
        property.receiverip)
    app.setProperty('udp:local_port',
        3000)
    app.measure('udp_in', :interval => 30) do |mp|
      mp.filter('pkt_length', 'sum')
      mp.filter('pkt_length', 'avg')
      mp.filter('ts', 'first')
      mp.filter('ts', 'last')
    end
  end
  node.net.w0.mode = "adhoc"
  node.net.w0.type = 'g'
  node.net.w0.channel = "6"
  node.net.w0.essid = "overhead"
  node.net.w0.ip = property.receiverip
end

# The receiver is there before the first packet, and until the last one has come.
onEvent(:ALL_UP_AND_INSTALLED) do |event|
  wait 2
  group('Receiver').startApplications
  wait 3
  group('Sender').startApplications
  wait property.runtime
  allGroups.stopApplications
  wait 5
  Experiment.done
end
