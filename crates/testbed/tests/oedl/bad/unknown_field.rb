defGroup('A', 'a') do |node|
  node.addApplication('otr2') { |app| app.measure('udp_in') { |mp| mp.filter('size', 'sum') } }
end
