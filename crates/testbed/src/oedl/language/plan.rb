# The plan into which a script is evaluated. Nothing runs while it is made; a clock of its own advances where the script waits.

require 'fiber'
require 'json'

module Oedl
  # Steps and seconds of a plan's own time that a script may take: one that takes more does not end.
  STEPS_MAX = 200_000
  SECONDS_MAX = 7 * 24 * 3600
  SCRIPT = 'script.rb'

  # Something that no plan can have: with the line of the script, and what to do about it.
  class Refusal < StandardError
    attr_reader :hint, :line
    def initialize(what, hint: nil, line: nil)
      super(what)
      @hint = hint
      @line = line || Oedl.line
    end
  end

  # Ends a fiber's work at Experiment.done.
  class Done < StandardError; end

  class << self
    attr_accessor :plan

    # The line of the script that is being evaluated.
    def line
      found = caller_locations.find { |place| place.path == SCRIPT }
      found && found.lineno
    end

    def refuse(what, hint: nil, line: nil)
      raise Refusal.new(what, hint: hint, line: line)
    end

    # A plain value of whatever a script may give: a property stands for its value.
    def plain(value)
      case value
      when Property then plain(value.value)
      when Array then value.map { |each| plain(each) }
      when Symbol then value.to_s
      else value
      end
    end

    def seconds(value, what)
      number = plain(value)
      number = Float(number, exception: false) if number.is_a?(String)
      unless number.is_a?(Numeric) && number >= 0
        refuse("#{what} is no time in seconds: #{number.inspect}")
      end
      number
    end
  end

  # Fibers that wait for moments of the plan's own time.
  class Clock
    attr_reader :now

    def initialize
      @now = 0
      @waiting = []
      @order = 0
    end

    # Something that begins at a time, with words for what it is.
    def at(time, about, &work)
      push(time, Fiber.new { work.call }, about)
    end

    def wait(seconds)
      Fiber.yield(@now + seconds)
    end

    # Runs all there is, until nothing is left or the experiment is done.
    def run
      steps = 0
      until @waiting.empty?
        entry = @waiting.min_by { |time, order, *| [time, order] }
        @waiting.delete(entry)
        time, _, fiber, about = entry
        steps += 1
        if steps > STEPS_MAX || time > SECONDS_MAX
          Oedl.refuse("the experiment does not end: #{about[:what]} goes on and on",
                      hint: 'a script ends by Experiment.done', line: about[:line])
        end
        @now = time
        begin
          resumed = fiber.resume
        rescue Done
          return
        end
        push(resumed, fiber, about) if fiber.alive?
      end
    end

    private

    def push(time, fiber, about)
      @order += 1
      @waiting << [time, @order, fiber, about]
    end
  end

  # All that a script says.
  class Plan
    attr_reader :clock, :properties, :applications, :prototypes, :groups, :nodes, :topologies, :events, :runs, :graphs
    attr_accessor :name, :end

    def initialize(overrides)
      @clock = Clock.new
      @overrides = overrides
      @properties = {}
      @applications = {}
      @prototypes = {}
      @groups = {}
      @nodes = {}
      @topologies = {}
      @events = {}
      @runs = []
      @graphs = []
      @notes = []
      @links = []
    end

    def note(what)
      entry = { line: Oedl.line, what: what }
      @notes << entry unless @notes.include?(entry)
    end

    def override(name)
      @overrides.delete(name)
    end

    def node(id)
      @nodes[id] ||= Node.new(id)
    end

    def add_link(link)
      @links << link
    end

    # Evaluates a script and runs its plan to the end.
    def evaluate(text)
      @clock.at(0, what: 'the script') do
        TOPLEVEL_BINDING.eval(text, SCRIPT, 1)
        unknown = @overrides.keys.first
        if unknown
          Oedl.refuse("the script has no property '#{unknown}'", line: 1,
                      hint: "it has #{@properties.empty? ? 'none' : @properties.keys.join(', ')}")
        end
        @events.each_value(&:check)
      end
      @clock.run
      @end = @clock.now
      @runs.each { |run| run.stop(@end) if run.stopped.nil? }
      @topologies.each_value { |topology| @links.concat(topology.links) }
    end

    def to_json(*arguments)
      {
        name: @name, end_s: @end, notes: @notes,
        properties: @properties.map { |name, property| { name: name, value: property.initial, about: property.about } },
        nodes: @nodes.values.map(&:to_h), links: @links, runs: @runs.map(&:to_h), graphs: @graphs.map(&:to_h)
      }.to_json(*arguments)
    end
  end
end
