# OMF 6: other spellings, timers, and an application of the experiment's own.
defProperty('hops', ['one', 'two', 'three'], 'nodes in a row')
def_property('target', '10.0.0.3', 'who is asked')

def_application('probe') do |a|
  a.binary_path = '/usr/bin/probe-oml2'
  a.description = 'asks again and again'
  a.define_parameter(
    target: { type: 'String', cmd: '--to', order: 2, mandatory: true },
    count: { type: 'Numeric', cmd: '-c', order: 1, default: 5 },
    quiet: { type: 'Boolean', cmd: '-q' }
  )
  a.def_measurement('rtt') { |m| m.def_metric('ms', :double); m.def_metric('seq', :uint32) }
end

def_group('Askers', 'one', 'two') do |g|
  g.add_application('probe') do |app|
    app.set_property('target', prop.target)
    app.set_property('quiet', true)
    app.measure('rtt', samples: 10) { |mp| mp.filter('ms', 'avg') }
  end
  g.net.e0.ip = '10.0.0.%index%/24'
end
def_group('Asked', 'three') { |g| g.net.e0.ip = property.target }
def_group('All', 'Askers', 'Asked')

on_event(:ALL_NODES_UP) do
  after 5.seconds do
    group('Askers').resources[type: 'application', name: 'probe'].state = :running
  end
  every 30.seconds do
    group('Asked').exec("echo still here >> log")
  end
  after 1.minute do
    group('Askers').stop_applications
    Experiment.done
  end
end
