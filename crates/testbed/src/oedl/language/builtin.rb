# The applications that need no definition: they are part of dhow.

module Oedl
  # An application that runs as a command of dhow.
  class Builtin < Application
    def program = name
  end

  BUILTIN = {}

  def self.builtin(names, command)
    application = Builtin.new(names.first, names.first)
    application.path = "dhow #{command}"
    yield application
    names.each { |name| BUILTIN[name] = application }
  end

  PACKET = { ts: :double, flow_id: :guid, seq_no: :uint32, pkt_length: :uint32, dst_host: :string, dst_port: :uint32 }.freeze

  def self.point(application, name, metrics)
    application.defMeasurement(name) { |point| metrics.each { |metric, type| point.defMetric(metric, type) } }
  end

  builtin(%w[otg2 otg], 'otg') do |a|
    a.defProperty('generator', 'Kind of traffic', '-g', type: :string)
    a.defProperty('protocol', 'Transport', '-p', type: :string)
    a.defProperty('udp:broadcast', 'Broadcast', '--udp:broadcast', type: :integer)
    %w[udp:dst_host udp:local_host].each { |name| a.defProperty(name, '', "--#{name}", type: :string) }
    %w[udp:dst_port udp:local_port].each { |name| a.defProperty(name, '', "--#{name}", type: :integer) }
    %w[cbr:size exp:size pareto:size].each { |name| a.defProperty(name, '', "--#{name}", type: :integer, dynamic: true) }
    %w[cbr:rate exp:rate pareto:rate exp:ontime exp:offtime pareto:ontime pareto:offtime].each do |name|
      a.defProperty(name, '', "--#{name}", type: :float, dynamic: true)
    end
    a.defProperty('cbr:interval', '', '--cbr:interval', type: :float)
    a.defProperty('pareto:shape', '', '--pareto:shape', type: :float)
    a.defProperty('flow:id', 'Name of the flow', '--flow:id', type: :integer)
    a.defProperty('debug-level', 'Ignored', '-d', type: :integer)
    point(a, 'udp_out', PACKET)
    point(a, 'tcp_out', PACKET)
  end

  builtin(%w[otr2 otr], 'otr') do |a|
    a.defProperty('protocol', 'Transport', '-p', type: :string)
    a.defProperty('sink', 'Transport', '-g', type: :string)
    a.defProperty('udp:local_host', '', '--udp:local_host', type: :string)
    a.defProperty('udp:local_port', '', '--udp:local_port', type: :integer)
    a.defProperty('debug-level', 'Ignored', '-d', type: :integer)
    point(a, 'udp_in', PACKET)
    point(a, 'tcp_in', PACKET)
  end

  builtin(%w[iperf iperf-5.4 iperf-oml], 'iperf') do |a|
    a.defProperty('client', 'Receiver', '-c', type: :string, order: 1)
    a.defProperty('udp', 'UDP', '-u', type: :boolean, order: 2)
    { 'server' => '-s', 'nodelay' => '-N', 'compatibility' => '-C', 'IPv6Version' => '-V' }
      .each { |name, word| a.defProperty(name, '', word, type: :boolean) }
    { 'interval' => '-i', 'len' => '-l', 'port' => '-p', 'window' => '-w', 'bind' => '-B', 'reportstyle' => '-y',
      'bandwidth' => '-b', 'num' => '-n', 'time' => '-t', 'parallel' => '-P', 'ttl' => '-T' }
      .each { |name, word| a.defProperty(name, '', word, type: :string) }
    # A client ends by itself after its time, 10 s if nothing else is said.
    a.ends = lambda do |values|
      values['client'] && !values['num'] ? Float(values['time'] || 10, exception: false) : nil
    end
    interval = { pid: :int32, connection_id: :int32, begin_interval: :double, end_interval: :double }
    point(a, 'application', pid: :int32, version: :string, cmdline: :string, starttime_s: :int32, starttime_us: :int32)
    point(a, 'settings', pid: :int32, server_mode: :int32, bind_address: :string, multicast: :int32, multicast_ttl: :int32,
                         transport_protocol: :int32, window_size: :int32, buffer_size: :int32)
    point(a, 'connection', pid: :int32, connection_id: :int32, local_address: :string, local_port: :int32,
                           foreign_address: :string, foreign_port: :int32)
    point(a, 'transfer', interval.merge(size: :uint64))
    point(a, 'losses', interval.merge(total_datagrams: :int32, lost_datagrams: :int32))
    point(a, 'jitter', interval.merge(jitter: :double))
    point(a, 'packets', pid: :int32, connection_id: :int32, packet_id: :int32, packet_size: :int32, packet_time_s: :int32,
                        packet_time_us: :int32, packet_sent_time_s: :int32, packet_sent_time_us: :int32)
  end
end
