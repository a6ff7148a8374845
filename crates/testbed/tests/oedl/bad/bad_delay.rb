defTopology('t', ['a', 'b']) { |t| t.addLink('a', 'b', { :delay => 'soon' }) }
onEvent(:ALL_UP) { resource('a').exec('true'); wait 1; Experiment.done }
