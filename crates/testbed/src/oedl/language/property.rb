# Properties of an experiment.

module Oedl
  # A property stands for its value wherever one is wanted.
  class Property
    include Comparable
    attr_reader :name, :about, :value

    def initialize(name, value, about)
      @name = name
      @value = value
      @about = about
      @bound = []
    end

    # The value before the experiment changes it.
    def initial = @first.nil? ? @value : @first

    # Applications' properties that follow this one.
    def bind(run, property)
      @bound << [run, property]
    end

    def value=(value)
      @first = @value if @first.nil?
      @value = Oedl.plain(value)
      @bound.each { |run, property| run.change(property, @value) }
    end
    alias set value=

    # A value from the command line, of the kind that the default is of.
    def override(text)
      @value = case @value
               when Integer then Integer(text, exception: false) || Float(text)
               when Float then Float(text)
               when true, false then parse_boolean(text)
               else text
               end
    rescue ArgumentError
      Oedl.refuse("the property '#{@name}' cannot be '#{text}'", hint: "its default is #{@value.inspect}", line: Oedl.line)
    end

    def to_s = @value.to_s
    alias to_str to_s
    def inspect = @value.inspect
    def <=>(other) = @value <=> Oedl.plain(other)
    def ==(other) = @value == Oedl.plain(other)
    def !=(other) = @value != Oedl.plain(other)
    def hash = @value.hash
    def eql?(other) = @value.eql?(Oedl.plain(other))
    def coerce(other) = [other, @value]
    def to_a = @value.respond_to?(:to_a) ? @value.to_a : [@value]
    def respond_to_missing?(name, all = false) = @value.respond_to?(name, all)

    def method_missing(name, *arguments, &block)
      return super unless @value.respond_to?(name)
      @value.public_send(name, *arguments.map { |each| Oedl.plain(each) }, &block)
    end

    private

    def parse_boolean(text)
      case text.downcase
      when 'true', 'yes', '1' then true
      when 'false', 'no', '0' then false
      else raise ArgumentError
      end
    end
  end

  # `property.x`, `property['x']`, `property.x = v`.
  class Properties
    def [](name)
      Oedl.plan.properties[name.to_s] ||
        Oedl.refuse("there is no property '#{name}'", hint: "defProperty('#{name}', VALUE, 'what it is') makes one")
    end

    def []=(name, value)
      self[name].value = value
    end

    def exist?(name) = Oedl.plan.properties.key?(name.to_s)

    def respond_to_missing?(*) = true

    def method_missing(name, *arguments)
      text = name.to_s
      text.end_with?('=') ? self[text.chomp('=')] = arguments.first : self[text]
    end
  end
end
