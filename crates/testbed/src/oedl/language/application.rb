# Applications: what they are, what they measure, and that they run.

module Oedl
  # An application's property, and how the command line has it.
  Parameter = Struct.new(:name, :word, :type, :order, :dynamic, :default, :mandatory, :place, keyword_init: true)

  # An application, as `defApplication` describes it.
  class Application
    attr_accessor :path, :shortDescription, :description, :appPackage, :debPackage, :rpmPackage, :omlPrefix, :environment, :name
    attr_reader :uri, :parameters, :points
    attr_writer :ends

    TYPES = { 'string' => String, 'integer' => Integer, 'int' => Integer, 'boolean' => nil, 'bool' => nil,
              'float' => Numeric, 'double' => Numeric, 'numeric' => Numeric, 'fixnum' => Integer }.freeze

    def initialize(uri, name)
      @uri = uri
      @name = name
      @parameters = {}
      @points = {}
    end

    alias binary_path path
    alias binary_path= path=
    alias oml_prefix= omlPrefix=
    alias pkg_debian= debPackage=
    %i[omlPrefix= quiet= platform= map_err_to_out= pkg_rpm= appPackage=].each { |name| define_method(name) { |_| } unless method_defined?(name) }

    def version(*); end
    alias version= version

    def defProperty(name, about = nil, word = nil, options = nil)
      # OMF 6 may leave the description's neighbour out; OMF 5 gives the parameter third.
      options, word = word, nil if word.is_a?(Hash) && options.nil?
      options = (options || {}).transform_keys { |key| key.to_s.delete_prefix(':').to_sym }
      add(name, options[:cmd] || options[:parameter] || word, options)
    end
    alias def_property defProperty

    # OMF 6: define_parameter(name: { type:, cmd:, ... }).
    def define_parameter(parameters)
      parameters.each { |name, options| add(name, options[:cmd], options) }
    end
    alias defineParameter define_parameter

    def defMeasurement(name, *)
      point = Point.new(name.to_s)
      yield point if block_given?
      @points[point.name] = point
    end
    alias def_measurement defMeasurement

    # The last part of its path, which its tables begin with.
    def program = (path || name || uri).to_s.split.first.to_s.split('/').last

    # The time that it runs by itself with these values; nil if it is not known.
    def ends(values) = @ends&.call(values)

    # The words of its command line.
    def words(values)
      chosen = @parameters.values.sort_by { |each| [each.order, each.place] }
      missing = chosen.find { |each| each.mandatory && values[each.name].nil? && each.default.nil? }
      Oedl.refuse("#{name || uri} needs its property '#{missing.name}'") if missing
      chosen.each_with_object(path.to_s.split) do |parameter, words|
        value = values.fetch(parameter.name, parameter.default)
        next if value.nil? || value == false
        words << parameter.word if parameter.word && !parameter.word.empty?
        words << value.to_s unless value == true
      end
    end

    # A property's value as its type has it.
    def checked(name, value)
      parameter = @parameters[name] || Oedl.refuse("#{self.name || uri} has no property '#{name}'", hint: near(name))
      value = Oedl.plain(value)
      case parameter.type
      when 'integer', 'int', 'fixnum'
        return value if value.is_a?(Integer)
        return value.to_i if value.is_a?(Float) && value == value.to_i
        Integer(value.to_s, exception: false) || mismatch(parameter, value, 'a whole number')
      when 'float', 'double', 'numeric'
        return value if value.is_a?(Numeric)
        Float(value.to_s, exception: false) || mismatch(parameter, value, 'a number')
      when 'boolean', 'bool'
        { true => true, false => false, 'true' => true, 'false' => false }.fetch(value) { mismatch(parameter, value, 'true or false') }
      else value
      end
    end

    private

    def mismatch(parameter, value, wanted)
      Oedl.refuse("#{name || uri}'s property '#{parameter.name}' is not #{wanted}: #{value.inspect}")
    end

    def near(name) = "it has #{@parameters.keys.empty? ? 'none' : @parameters.keys.join(', ')}"

    def add(name, word, options)
      name = name.to_s
      type = (options[:type] || 'string').to_s.downcase
      Oedl.refuse("there is no type '#{type}' of properties", hint: "there are #{TYPES.keys.join(', ')}") unless TYPES.key?(type)
      @parameters[name] = Parameter.new(
        name: name, word: word&.to_s&.strip, type: type, order: options[:order] || 999, dynamic: options[:dynamic] ? true : false,
        default: options[:default], mandatory: options[:mandatory], place: @parameters.size
      )
    end
  end

  # A measurement point of an application.
  class Point
    attr_reader :name, :metrics
    TYPES = %w[float double int int32 integer uint32 int64 uint64 long short string bool boolean guid blob numeric].freeze

    def initialize(name)
      @name = name
      @metrics = {}
    end

    def defMetric(name, type = :string, *)
      kind = type.to_s.downcase
      Oedl.refuse("there is no type '#{type}' of metrics", hint: "there are #{TYPES.join(', ')}") unless TYPES.include?(kind)
      @metrics[name.to_s] = kind
    end
    alias def_metric defMetric
  end

  # A measurement point of an application, as `measure` names it.
  class Measure
    FILTERS = %w[avg first last sum stddev delta].freeze

    def initialize(application, name, options)
      @point = application.points[name.to_s]
      if @point.nil? && !application.points.empty?
        Oedl.refuse("#{application.name || application.uri} has no measurement point '#{name}'", hint: "it has #{application.points.keys.join(', ')}")
      end
      @name = name.to_s
      @samples = Oedl.plain(options[:samples])
      @interval = Oedl.plain(options[:interval])
      Oedl.refuse("'#{name}' is measured by samples or by an interval, not both") if @samples && @interval
      @filters = []
    end

    def filter(field, operation = nil, options = nil)
      if operation.is_a?(Hash)
        options = operation
        operation = nil
      end
      known(field)
      operation = (operation || default(field)).to_s
      unless FILTERS.include?(operation)
        Oedl.refuse("there is no filter '#{operation}'", hint: "there are #{FILTERS.join(', ')}")
      end
      Oedl.plan.note("what a filter is told beside its field is left out") if options && !options.empty?
      @filters << { field: field.to_s, operation: operation }
    end

    def metric(_name, *fields)
      fields.grep_v(Hash).each { |field| filter(field) }
    end

    def to_h = { point: @name, samples: @samples, interval: @interval, filters: @filters }

    private

    def known(field)
      return if @point.nil? || @point.metrics.empty? || @point.metrics.key?(field.to_s)
      Oedl.refuse("'#{@name}' has no field '#{field}'", hint: "it has #{@point.metrics.keys.join(', ')}")
    end

    def default(field) = %w[string bool boolean guid blob].include?(@point&.metrics&.fetch(field.to_s, nil)) ? 'first' : 'avg'
  end

  # An application of a group: `addApplication`.
  class Use
    attr_reader :application, :id, :values, :measures
    attr_accessor :line

    def initialize(application, id)
      @application = application
      @id = id
      @values = {}
      @measures = []
      @line = Oedl.line
    end

    def setProperty(name, value)
      # A property that a prototype binds is checked once it has a value.
      @application.checked(name.to_s, value) unless value.is_a?(BoundName)
      @values[name.to_s] = value
    end
    alias set_property setProperty

    def bindProperty(name, to = name)
      setProperty(name, to.is_a?(String) || to.is_a?(Symbol) ? BoundName.new(to.to_s) : to)
    end
    alias bind_property bindProperty

    def measure(point, options = {})
      Oedl.plan.note("measurements go to the testbed's own collector") if options.key?(:collect)
      measure = Measure.new(@application, point, options)
      yield measure if block_given?
      @measures << measure
    end
  end

  # One run of an application on a node, or of a command.
  class Run
    attr_reader :stopped, :started, :use, :node, :label

    def initialize(node, label, use: nil, words: nil, command: nil)
      @node = node
      @label = label
      @use = use
      @command = command
      @started = Oedl.plan.clock.now
      @line = use ? use.line : Oedl.line
      @told = []
      bind if use
      @words = words || (use && use.application.words(@current))
      @ends = use && use.application.ends(@current)
    end

    def running? = @stopped.nil? && (@ends.nil? || Oedl.plan.clock.now < @started + @ends)

    def stop(time = Oedl.plan.clock.now)
      @stopped = time
    end

    # A property that is bound to one of the experiment has another value.
    def change(name, value)
      return unless running?
      parameter = @use.application.parameters[name]
      return Oedl.plan.note("'#{name}' keeps its value while #{@label} runs: it is not :dynamic") unless parameter.dynamic
      tell("#{name} #{@use.application.checked(name, value)}")
    end

    # A line on its standard input.
    def tell(text)
      @told << { at_s: Oedl.plan.clock.now - @started, text: text }
    end

    def to_h
      { node: @node.id, label: @label, words: @words, command: @command, start_s: @started, stop_s: @stopped, line: @line, told: @told,
        builtin: @use && @use.application.is_a?(Builtin), environment: @use ? (@use.application.environment || {}).to_h : {},
        measures: @use ? @use.measures.map(&:to_h) : [] }
    end

    private

    def bind
      @current = @use.values.to_h do |name, value|
        value.bind(self, name) if value.is_a?(Property)
        plain = @use.application.checked(name, value)
        [name, plain.is_a?(String) ? @node.fill(plain) : plain]
      end
    end
  end
end
