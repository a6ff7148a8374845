defGroup('A', 'a') do |node|
  node.addApplication('otr2') do |app|
    app.measure('udp_in', :samples => 10) { |mp| mp.filter('pkt_length', 'median') }
  end
end
