defApplication('talk', 'talk') { |a| a.path = '/usr/bin/talk'; a.environment = { 'FORMAT' => '{a}' } }
defGroup('A', 'a') { |node| node.addApplication('talk') }
onEvent(:ALL_UP) { allGroups.startApplications; wait 5; Experiment.done }
