defGroup('A', 'a')
onEvent(:LUNCH) { Experiment.done }
