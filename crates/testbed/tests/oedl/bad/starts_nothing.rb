defGroup('A', 'a')
onEvent(:ALL_UP) { Experiment.done }
