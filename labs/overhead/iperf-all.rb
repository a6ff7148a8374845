# Samson, Daneels, Braem and Blondia, "Overhead Analysis of Embedded Wireless Testbeds", CNBuB 2012,
# appendix A (OML Iperf All): every packet is measured.
# Each group stands as it is printed, a `do` in the line after defGroup(...) included. The paper leaves out the properties, the radio
# and the events; they follow its text: UDP datagrams of 1470 octets, 54*1024*1024 bit/s offered for 300 s, one wireless network.

defProperty('theSender', 'omf.pats.alix1', 'Node that sends')
defProperty('theReceiver', 'omf.pats.alix2', 'Node that receives')
defProperty('senderip', '192.168.0.1', 'Address of the sender')
defProperty('receiverip', '192.168.0.2', 'Address of the receiver')
defProperty('bitrate', 54*1024*1024, 'Bits that are offered a second')
defProperty('runtime', 300, 'Seconds that are sent')

defGroup('Sender', property.theSender)
do |node|
  node.addApplication("iperf-5.4") {|
    app|
    app.setProperty('port', 3000)
    app.setProperty('client', property
        .receiverip)
    app.setProperty('reportstyle', 'O'
        )
    app.setProperty('interval', '30')
    app.setProperty('bandwidth',
        property.bitrate)
    app.setProperty('udp', true)
    app.measure('packets', :samples
        =>1)
    app.setProperty('time', property.
        runtime)
  }
  node.net.w0.mode = "adhoc"
  node.net.w0.type = 'g'
  node.net.w0.channel = "6"
  node.net.w0.essid = "overhead"
  node.net.w0.ip = property.senderip
end

defGroup('Receiver', property.
    theReceiver)
do |node|
  node.addApplication("iperf-5.4") { |
    app|
    app.setProperty('port', 3000)
    app.setProperty('server', true)
    app.setProperty('reportstyle', 'O'
        )
    app.setProperty('interval', '30')
    app.setProperty('udp', true)
    app.measure('packets', :samples
        =>1)
  }
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
  wait property.runtime + 5
  allGroups.stopApplications
  wait 5
  Experiment.done
end
