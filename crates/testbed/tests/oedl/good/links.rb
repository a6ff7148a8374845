# Links of a topology, groups of groups, a prototype, events with a condition, and messages.
defTopology('chain', ['a', 'b', 'c']) do |t|
  t.addLink('a', 'b', { :delay => "54ms", :bw => "500kbit" })
  t.addLink('b', 'c', { :loss => "10%" })
end

defPrototype('test:proto:sender') do |p|
  p.name = 'a sender'
  p.defProperty('to', 'who receives')
  p.defProperty('rate', 'bit/s', 100_000)
  p.addApplication('otg2') do |a|
    a.bindProperty('udp:dst_host', 'to')
    a.bindProperty('cbr:rate', 'rate')
    a.setProperty('generator', 'expoo')
    a.setProperty('exp:rate', 64000)
    a.measure('udp_out')
  end
end

defApplication('test:app:chat', 'chat') do |a|
  a.path = "/opt/chat"
  a.environment = { 'LEVEL' => '3' }
  a.defProperty('mood', 'How it answers', '--mood', { :type => :string, :dynamic => true })
end

defProperty('mood', 'calm', 'how the chat answers')

defGroup('ends', 'a,c')
defGroup('all', ['ends', 'b'])
group('ends').prototype('test:proto:sender', { 'to' => 'b' })
defGroup('talker', 'b') do |node|
  node.addApplication('test:app:chat', :id => 'talk') { |app| app.setProperty('mood', property.mood) }
end

ready = false
defEvent(:READY, 4) { |ev| ev.fire(:why => 'waited') if ready }

onEvent(:READY) do |ev|
  info "ready: it #{ev[:why]}"
  group('talker').sendMessage('talk', 'well', 'then')
  wait 6
  property.mood = 'cross'
  wait 14.5
  Experiment.done
end

onEvent(:ALL_UP) do
  allGroups.startApplications
  group('all').exec('ping -c 2 b')
  wait 10
  ready = true
end
