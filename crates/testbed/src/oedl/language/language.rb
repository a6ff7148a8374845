# The commands of the language, as scripts have them.

module Oedl
  HINTS = {
    'state' => 'what runs is not known when a plan is made; wait a time instead',
    'ms' => 'measurements come when the experiment runs; ask for them in its results',
    'defQuery' => 'measurements come when the experiment runs; ask for them in its results',
    'loadOEDL' => 'put what it has into the script'
  }.freeze

  class << self
    def hint_for(name) = HINTS[name.to_s]

    # The last part of an application's name, without the blanks that print puts into it.
    def bare(name) = name.to_s.delete(' ').split(':').last.to_s

    def application(name)
      return name if name.is_a?(Application)
      given = plain(name).to_s
      plan.applications[given] || plan.applications[bare(given)] || BUILTIN[bare(given)] ||
        refuse("there is no application '#{given}'", hint: "defApplication describes one; #{BUILTIN.keys.join(', ')} need no description")
    end

    # All nodes that a selector names: nodes, topologies, groups, lists of these.
    def select(selector)
      case selector = plain(selector)
      when nil then []
      when Array then selector.flat_map { |each| select(each) }.uniq
      when Group then selector.nodes
      when Node then [selector]
      when String
        names = selector.split(',').map(&:strip).reject(&:empty?)
        names.flat_map { |name| named(name) }.uniq
      else refuse("'#{selector.inspect}' names no nodes", hint: "for example 'node1,node2', or an array of names")
      end
    end

    def named(name)
      return plan.groups[name].nodes if plan.groups.key?(name)
      return plan.topologies[name].nodes if plan.topologies.key?(name)
      [plan.node(name)]
    end
  end

  # `defEvent`, and those that are there by themselves.
  class Event
    BUILTIN_NOW = %w[ALL_UP ALL_NODES_UP ALL_UP_AND_INSTALLED ALL_APPS_UP ALL_INTERFACE_UP ALL_RESOURCE_UP].freeze
    NEVER = %w[EXPERIMENT_FAILED INTERRUPT NO_USER_DEFINED_EVENTS EXPERIMENT_DONE].freeze
    APPLICATIONS_DONE = 'ALL_APPS_DONE'

    attr_reader :name
    attr_accessor :options

    def initialize(name, interval = 5, &condition)
      @name = name
      @interval = interval
      @condition = condition
      @callbacks = []
      @line = Oedl.line
      @fired = nil
      poll if condition
    end

    def fire(options = {})
      @options = options
      @fired = true
    end

    def [](key) = (@options || {})[key]

    def add(consume, &callback)
      @line ||= Oedl.line
      @callbacks << [consume, callback]
      return if @condition || NEVER.include?(@name)
      return applications_done if @name == APPLICATIONS_DONE
      begin_at_once if BUILTIN_NOW.include?(@name) && !@begun
    end

    # OMF 6 hands the states of resources to a condition.
    def method_missing(name, *)
      Oedl.refuse("'#{name}' of the states of resources cannot be planned", hint: Oedl.hint_for('state'))
    end
    def respond_to_missing?(*) = false

    # An event that nobody defines never happens.
    def check
      return if @condition || (BUILTIN_NOW + NEVER + [APPLICATIONS_DONE]).include?(@name)
      Oedl.refuse("there is no event '#{@name}'", hint: "defEvent(:#{@name}) defines one; #{(BUILTIN_NOW + [APPLICATIONS_DONE]).join(', ')} are there", line: @line)
    end

    private

    def about = { what: "event #{@name}", line: @line }

    def begin_at_once
      @begun = true
      Oedl.plan.clock.at(Oedl.plan.clock.now, about) do
        call_back
        @begun = false
        @callbacks.clear
      end
    end

    def poll
      Oedl.plan.clock.at(Oedl.plan.clock.now, about) do
        loop do
          said = @condition.call(self)
          break if @fired || (said == true && @fired.nil?)
          Oedl.plan.clock.wait(@interval)
        end
        call_back
      end
    end

    # All that was started has ended, by itself as far as that is known.
    def applications_done
      return if @begun
      @begun = true
      Oedl.plan.clock.at(Oedl.plan.clock.now, about) do
        loop do
          runs = Oedl.plan.runs
          break if !runs.empty? && runs.none?(&:running?)
          Oedl.plan.clock.wait(1)
        end
        call_back
      end
    end

    # The one that was added last comes first, as in OMF 5.
    def call_back
      @callbacks.reverse_each do |consume, callback|
        callback.call(self)
        break if consume
      end
    end
  end

  # `defGraph`: a hint for whoever draws.
  class Graph
    def initialize(name)
      @name = name
      @said = {}
    end

    def ms(table)
      @said[:table] = table.to_s
      Chain.new
    end

    %w[caption type mapping xaxis yaxis postfix].each { |name| define_method(name) { |value = nil| @said[name.to_sym] = value } }
    alias x_axis xaxis
    alias y_axis yaxis

    def to_h = { name: @name.to_s, table: @said[:table], caption: @said[:caption]&.to_s }

    # select, where, group and so on, which nobody evaluates.
    class Chain
      def method_missing(*) = self
      def respond_to_missing?(*) = true
    end
  end

  # `Experiment`.
  class Experiment
    class << self
      def done = raise(Done)
      alias done! done
      alias close done
      def ID = Oedl.plan.name || 'experiment'
      alias sliceID ID
      def name = Oedl.plan.name
      def name=(name)
        Oedl.plan.name = name.to_s
      end
      def project=(_); end
      def property(name) = Properties.new[name]
      def running? = true
      def failed(what) = Oedl.refuse("the script fails: #{what}")
      def disconnection_allowed? = false

      def method_missing(name, *)
        Oedl.refuse("Experiment.#{name} cannot be planned", hint: Oedl.hint_for(name))
      end
      def respond_to_missing?(*) = false
    end
  end

  # The commands that stand alone in a script.
  module Commands
    def property = Properties.new
    alias prop property

    def defProperty(name, default = nil, about = nil, *rest)
      plan = Oedl.plan
      name = name.to_s
      Oedl.refuse("the property '#{name}' is there already") if plan.properties.key?(name)
      property = Property.new(name, Oedl.plain(default), (rest.first.is_a?(String) ? rest.first : about).to_s)
      text = plan.override(name)
      property.override(text) if text
      plan.properties[name] = property
    end

    def ensureProperty(name, *rest)
      property.exist?(name) ? property[name] : defProperty(name, *rest)
    end

    def defApplication(uri, name = nil)
      application = Application.new(uri.to_s, (name || Oedl.bare(uri)).to_s)
      yield application if block_given?
      Oedl.plan.applications[uri.to_s] = application
      Oedl.plan.applications[Oedl.bare(uri)] = application
    end

    def defPrototype(uri, name = nil)
      prototype = Prototype.new
      prototype.name = name
      yield prototype
      Oedl.plan.prototypes[uri.to_s] = prototype
    end

    def defTopology(name, nodes = nil)
      topology = Topology.new(nodes.nil? ? [] : Oedl.select(nodes))
      yield topology if block_given?
      Oedl.plan.topologies[name.to_s] = topology
    end

    def defGroup(name, *selectors)
      plan = Oedl.plan
      name = name.to_s
      Oedl.refuse("the group '#{name}' is there already") if plan.groups.key?(name)
      group = Group.new(name, Oedl.select(selectors))
      plan.groups[name] = group
      yield group if block_given?
      group
    end

    def group(name)
      found = Oedl.plan.groups[name.to_s] ||
              Oedl.refuse("there is no group '#{name}'", hint: "there are #{Oedl.plan.groups.keys.join(', ')}")
      yield found if block_given?
      found
    end

    def allGroups(&block)
      groups = Groups.new(Oedl.plan.groups.values)
      groups.eachGroup(&block) if block
      groups
    end

    def allNodes!(&block)
      nodes = Groups.new([Group.new('all nodes', Oedl.plan.nodes.values)])
      block&.call(nodes)
      nodes
    end
    alias allNodes allNodes!

    def resource(id) = Group.new(id.to_s, [Oedl.plan.node(id.to_s)])

    def wait(seconds) = Oedl.plan.clock.wait(Oedl.seconds(seconds, 'wait'))

    def after(seconds, &work)
      Oedl.plan.clock.at(Oedl.plan.clock.now + Oedl.seconds(seconds, 'after'), { what: 'after', line: Oedl.line }, &work)
    end

    # OMF 5: every(name, interval, initial) until the block returns nil. OMF 6: every(interval), always.
    def every(name, interval = 60, initial = nil, &work)
      is_named = !Oedl.plain(name).is_a?(Numeric)
      interval = Oedl.seconds(is_named ? interval : name, 'every')
      Oedl.refuse('every takes more than no time') unless interval.positive?
      Oedl.plan.clock.at(Oedl.plan.clock.now, { what: is_named ? "every '#{name}'" : 'every', line: Oedl.line }) do
        Oedl.plan.clock.wait(initial ? Oedl.seconds(initial, 'every') : interval)
        loop do
          said = work.call(self)
          break if is_named && said.nil?
          Oedl.plan.clock.wait(interval)
        end
      end
    end

    def everyNS(group, interval = 60, &work)
      every('everyNS', interval) { work.call(group(group)) }
    end

    def defEvent(name, interval = 5, &condition)
      interval = interval[:every] || 5 if interval.is_a?(Hash)
      interval = Oedl.seconds(interval, 'defEvent')
      Oedl.refuse("the event '#{name}' is looked for at no interval") unless interval.positive?
      known = Oedl.plan.events[name.to_s]
      event = Event.new(name.to_s, interval, &condition)
      known&.instance_variable_get(:@callbacks)&.each { |consume, callback| event.add(consume, &callback) }
      Oedl.plan.events[name.to_s] = event
    end

    def onEvent(name, consume = false, &callback)
      consume = false if consume.is_a?(Hash)
      (Oedl.plan.events[name.to_s] ||= Event.new(name.to_s)).add(consume, &callback)
    end

    def whenAllUp(&callback) = onEvent(:ALL_UP, &callback)
    def whenAllInstalled(&callback) = onEvent(:ALL_UP_AND_INSTALLED, &callback)

    def allEqual(values, wanted) = !values.empty? && values.all? { |value| value.to_s == wanted.to_s }
    def oneEqual(values, wanted) = values.any? { |value| value.to_s == wanted.to_s }

    def defGraph(name)
      graph = Graph.new(name)
      yield graph if block_given?
      Oedl.plan.graphs << graph
    end

    def info(*words) = Oedl.plan.note(words.map { |word| Oedl.plain(word).to_s }.join(' '))
    alias debug info
    alias warn info
    alias error info
    def addTab(*); end

    %w[defQuery ms msSenderName loadOEDL whenAll whenAllEqual load_oedl].each do |name|
      define_method(name) { |*, **| Oedl.refuse("'#{name}' cannot be planned", hint: Oedl.hint_for(name)) }
    end

    { def_property: :defProperty, ensure_property: :ensureProperty, def_application: :defApplication, def_prototype: :defPrototype,
      def_group: :defGroup, all_groups: :allGroups, def_event: :defEvent, on_event: :onEvent, def_graph: :defGraph, def_query: :defQuery,
      all_equal: :allEqual, one_equal: :oneEqual }.each { |ours, theirs| alias_method ours, theirs }
  end

  # Methods that reach the machine are taken away: a plan starts nothing, reads nothing and writes nothing.
  module Forbidden
    NAMES = %w[system spawn fork require require_relative load open ` sleep exit exit! abort at_exit gets readline readlines
               syscall trap exec autoload].freeze

    # It is out of reach by other ways too: against mistakes, not against malice.
    def self.take_away
      NAMES.each { |name| Kernel.send(:undef_method, name) if Kernel.private_method_defined?(name) }
      [Kernel, IO, File, Dir, Process].each do |owner|
        owner.singleton_methods(false).each { |name| owner.singleton_class.send(:undef_method, name) }
      end
      [IO, File, Dir].each { |owner| owner.singleton_class.send(:undef_method, :new) if owner.respond_to?(:new) }
      %i[File Dir IO Process Thread Kernel ObjectSpace DATA STDIN Socket].each do |name|
        Object.send(:remove_const, name) if Object.const_defined?(name)
      end
    end

    NAMES.each do |name|
      define_method(name) do |*|
        hint = { 'sleep' => 'wait says it in the plan\'s own time', 'exit' => 'Experiment.done ends an experiment' }[name]
        Oedl.refuse("'#{name}' is not a command of a script", hint: hint)
      end
    end
  end
end

class Numeric
  { second: 1, minute: 60, hour: 3600, day: 86_400 }.each do |name, length|
    define_method(name) { self * length }
    define_method("#{name}s") { self * length }
  end
end
