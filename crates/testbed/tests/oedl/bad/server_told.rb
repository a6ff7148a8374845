defProperty('port', 3000, '')
defGroup('A', 'a') { |n| n.addApplication('otr2') }
onEvent(:ALL_UP) { allGroups.startApplications; group('A').sendMessage('otr2', 'pause'); wait 5; Experiment.done }
