defApplication('talk', 'talk') { |a| a.path = '/usr/bin/talk' }
defGroup('A', 'a') { |node| node.addApplication('talk') }
onEvent(:ALL_UP) { allGroups.startApplications; group('A').sendMessage('talk', 'go {b}'); wait 5; Experiment.done }
