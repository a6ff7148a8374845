# OMF 5: a flow whose rate the experiment changes while it runs.
defProperty('sender', 'node1', 'who sends')
defProperty('receiver', 'node2', 'who receives')
defProperty('packetsize', 256, 'octets')
defProperty('bitrate', 2048, 'bit/s')
defProperty('step', 20, 'seconds between changes')

defGroup('Sender', property.sender) {|node|
  node.addApplication("test:app:otg2") {|app|
    app.setProperty('udp:local_host', '%net.w0.ip%')
    app.setProperty('udp:dst_host', '192.168.0.3')
    app.setProperty('udp:dst_port', 3000)
    app.setProperty('cbr:size', property.packetsize)
    app.setProperty('cbr:rate', property.bitrate * 2)
    app.setProperty('cbr:rate', property.bitrate)
    app.measure('udp_out', :interval => 3)
  }
  node.net.w0.mode = "adhoc"
  node.net.w0.essid = "helloworld"
  node.net.w0.ip = "192.168.0.2"
}

defGroup('Receiver', property.receiver) {|node|
  node.addApplication("test:app:otr2") {|app|
    app.setProperty('udp:local_host', '192.168.0.3')
    app.setProperty('udp:local_port', 3000)
    app.measure('udp_in', :samples => 1)
  }
  node.net.w0.essid = "helloworld"
  node.net.w0.ip = "192.168.0.3"
}

onEvent(:ALL_UP_AND_INSTALLED) do |event|
  info "starting in #{property.step / 4} s"
  wait property.step / 4
  allGroups.startApplications
  [2, 8].each do |factor|
    wait property.step
    property.bitrate = 2048 * factor
  end
  wait property.step
  allGroups.stopApplications
  Experiment.done
end

defGraph 'Throughput' do |g|
  g.ms('udp_in').select(:oml_ts_client, :pkt_length)
  g.caption "What arrives"
  g.type 'line_chart3'
  g.mapping :x_axis => :oml_ts_client, :y_axis => :pkt_length
end
