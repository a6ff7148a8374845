defGroup('A', 'a') { |node| node.addApplication('otr2') }
defEvent(:ALL_THERE) do |state|
  state.find_all { |each| each[:state] == 'running' }.size == 1
end
onEvent(:ALL_THERE) { Experiment.done }
