defGroup('A', 'a') do |node|
  node.addApplication('otr2') { |app| app.setProperty('colour', 'red') }
end
