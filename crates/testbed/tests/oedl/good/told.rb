# What a program is told is text, whatever a shell would make of it; what it measures lies beside its log.
defApplication('talk', 'talk') do |a|
  a.path = '/usr/bin/talk'
  a.defMeasurement('words') { |m| m.defMetric('count', :int32) }
end
defGroup('A', 'a') { |node| node.addApplication('talk') { |app| app.measure('words', :samples => 1) } }
onEvent(:ALL_UP) do
  allGroups.startApplications
  wait 1
  group('A').sendMessage('talk', "x;touch y")
  wait 1
  group('A').sendMessage('talk', "it's $HOME\\n")
  wait 1
  Experiment.done
end
