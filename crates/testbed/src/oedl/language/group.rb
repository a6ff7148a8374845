# Nodes, what they are joined by, and groups of them.

module Oedl
  # A node, by its name in the script.
  class Node
    attr_reader :id, :interfaces, :uses

    def initialize(id)
      @id = id
      @interfaces = {}
      @uses = []
    end

    def set(interface, name, value)
      (@interfaces[interface] ||= {})[name] = value
    end

    # `%net.w0.ip%` is this node's own.
    def fill(text)
      text.gsub(/%net\.(\w+)\.(\w+)%/) do
        @interfaces.dig($1, $2) || Oedl.refuse("#{@id} has no #{$2} of #{$1}")
      end
    end

    def to_h = { id: @id, interfaces: @interfaces.map { |name, settings| { name: name, settings: settings } } }
  end

  # `net.w0` of a group.
  class Interface
    NAMES = %w[e0 e1 e2 e3 w0 w1 w2 w3 x0 x1 wlan0 wlan1 eth0 eth1].freeze
    ATTRIBUTES = %w[mode type hw_mode channel essid ip netmask mac mtu arp rts rate tx_power profile network route filter phy
                    enforce_link frequency ip_addr key].freeze
    # Settings of a radio, which an emulated link does not have.
    RADIO = %w[mac arp rts tx_power profile route filter enforce_link key].freeze

    def initialize(group, name)
      @group = group
      @name = name
    end

    def up; end
    def down
      Oedl.refuse('taking an interface down cannot be planned', hint: 'a [[contact]] of the scenario does it')
    end

    def respond_to_missing?(*) = true

    def method_missing(name, *arguments)
      text = name.to_s
      attribute = text.chomp('=')
      Oedl.refuse("an interface has no '#{attribute}'", hint: "it has #{ATTRIBUTES.join(', ')}") unless ATTRIBUTES.include?(attribute)
      return @group.nodes.first&.interfaces&.dig(@name, attribute) unless text.end_with?('=')
      value = Oedl.plain(arguments.first)
      Oedl.plan.note("'#{attribute}' of interfaces changes nothing here") if RADIO.include?(attribute)
      @group.nodes.each_with_index do |node, place|
        node.set(@name, attribute, value.is_a?(String) ? value.gsub('%index%', (place + 1).to_s) : value)
      end
    end
  end

  # `net` of a group.
  class Interfaces
    def initialize(group) = @group = group
    def respond_to_missing?(*) = true

    # `net.w0.ip = ...`, or `net.w0 { |w0| w0.ip = ... }`.
    def method_missing(name, *)
      Oedl.refuse("there is no interface '#{name}'", hint: "there are #{Interface::NAMES.join(', ')}") unless Interface::NAMES.include?(name.to_s)
      interface = Interface.new(@group, name.to_s)
      yield interface if block_given?
      interface
    end
  end

  # `defTopology`.
  class Topology
    attr_reader :nodes, :links

    def initialize(nodes)
      @nodes = nodes
      @labels = {}
      @links = []
    end

    def addNode(label, node = nil)
      node = Oedl.plan.node((node || label).to_s)
      @labels[label.to_s] = node
      @nodes |= [node]
    end

    def addLink(first, second, options = {})
      Oedl.plan.note('a link is the same both ways: :asymmetric changes nothing') if options[:asymmetric]
      Oedl.refuse('a link for some ports alone is not there', hint: 'leave :portFilter out') if options[:portFilter]
      between = [first, second].map { |end_| find(end_).id }
      @links << { between: between, line: Oedl.line, delay: text(options[:delay]), loss: text(options[:loss]), bw: text(options[:bw]) }
    end

    def removeLink(first, second)
      between = [find(first).id, find(second).id].sort
      @links.reject! { |link| link[:between].sort == between }
    end

    def size = @nodes.size
    def getNodeByIndex(place) = @nodes[place]&.id
    def getNodeByLabel(label) = @labels[label.to_s]&.id
    def getNode(name) = find(name).id
    def getFirstNode = @nodes.first&.id
    def getLastNode = @nodes.last&.id
    def eachNode(&block) = @nodes.map(&:id).each(&block)
    def getRandomNode = chance
    def getUniqueRandomNode = chance

    private

    def chance = Oedl.refuse('a node by chance is another one in each plan', hint: 'name it, or take getNodeByIndex(0)')
    def text(value) = value && Oedl.plain(value).to_s

    def find(name)
      return name if name.is_a?(Node)
      @labels[name.to_s] || @nodes.find { |node| node.id == name.to_s } || Oedl.refuse("the topology has no node '#{name}'")
    end
  end

  # A group of nodes, or one node, as a script has it.
  class Group
    attr_reader :name, :nodes

    def initialize(name, nodes)
      @name = name
      @nodes = nodes
      @uses = []
    end

    def net
      interfaces = Interfaces.new(self)
      yield interfaces if block_given?
      interfaces
    end

    def addApplication(application, options = {})
      found = Oedl.application(application)
      use = Use.new(found, options[:id]&.to_s)
      yield use if block_given?
      @uses << use
      @nodes.each { |node| node.uses << [self, use] }
      use
    end

    def prototype(uri, values = {})
      prototype = Oedl.plan.prototypes[uri.to_s] || Oedl.refuse("there is no prototype '#{uri}'", hint: "defPrototype('#{uri}') makes one")
      prototype.apply(self, values.transform_keys(&:to_s))
    end
    alias addPrototype prototype

    def startApplications = chosen(nil).each { |node, use| start(node, use) }

    def startApplication(name)
      chosen(name).each { |node, use| start(node, use) }
    end

    def stopApplications = runs(nil).each(&:stop)
    def stopApplication(name) = runs(name).each(&:stop)
    def sendMessage(name, *words) = runs(name).each { |run| run.tell(words.map { |word| Oedl.plain(word) }.join(' ')) }

    def exec(command, arguments = nil, _environment = nil)
      Oedl.refuse("what '#{command}' prints is not known when a plan is made", hint: 'leave the block of exec out') if block_given?
      text = [command, arguments].flatten.compact.map { |word| Oedl.plain(word).to_s }.join(' ')
      @nodes.each { |node| Oedl.plan.runs << Run.new(node, 'exec', command: node.fill(text)) }
    end

    def eachNode
      @nodes.each { |node| yield Group.new(node.id, [node]) }
    end

    def each_group = yield(self)
    alias eachGroup each_group
    def members = @nodes.map(&:id)
    def size = @nodes.size
    def empty? = @nodes.empty?
    def up? = true
    def to_s = @name.to_s
    def onNodeUp
      eachNode { |node| yield node }
    end
    %i[powerOn powerOff powerReset enroll reset loadImage image= loadData set_disconnection].each do |name|
      define_method(name) { |*| Oedl.plan.note("'#{name}' does nothing: nodes are namespaces of this machine, and up") }
    end

    def resources(filter = {}) = Resources.new(self, filter)

    alias add_application addApplication
    alias add_prototype prototype
    alias start_applications startApplications
    alias start_application startApplication
    alias stop_applications stopApplications
    alias stop_application stopApplication
    alias each_node eachNode

    def method_missing(name, *)
      Oedl.refuse("'#{name}' of a group cannot be planned", hint: Oedl.hint_for(name))
    end
    def respond_to_missing?(*) = false

    private

    def start(node, use)
      if Oedl.plan.runs.any? { |run| run.node == node && run.use == use && run.running? }
        return Oedl.plan.note("#{use.application.program} runs already")
      end
      Oedl.plan.runs << Run.new(node, use.application.program, use: use)
    end

    # Uses of this group; those of groups that it has been made of are on its nodes.
    def chosen(name)
      pairs = @nodes.flat_map { |node| node.uses.map { |group, use| [node, use, group] } }
      pairs = pairs.select { |_, _, group| group == self || (group.nodes - @nodes).empty? }
      found = pairs.select { |_, use, _| name.nil? || matches?(use, name.to_s) }
      Oedl.refuse("group '#{@name}' has no application '#{name}'") if name && found.empty?
      found.map { |node, use, _| [node, use] }.uniq
    end

    def matches?(use, name)
      [use.id, use.application.uri, use.application.name, use.application.program].compact.map(&:to_s).include?(name) ||
        Oedl.bare(name) == use.application.uri
    end

    def runs(name)
      wanted = chosen(name)
      Oedl.plan.runs.select { |run| run.running? && wanted.include?([run.node, run.use]) }
    end
  end

  # OMF 6: resources[type: 'application', name: 'x'].state = :running.
  class Resources
    def initialize(group, filter)
      type = (filter[:type] || 'application').to_s
      Oedl.refuse("resources of type '#{type}' are not there", hint: "there are those of type 'application'") unless type == 'application'
      @group = group
      @name = filter[:name]
    end

    def [](filter) = Resources.new(@group, filter)

    def state=(state)
      case state.to_s
      when 'running' then @name ? @group.startApplication(@name) : @group.startApplications
      when 'stopped' then @name ? @group.stopApplication(@name) : @group.stopApplications
      else
        what = @name ? "application '#{@name}'" : 'an application'
        Oedl.refuse("#{what} of group '#{@group.name}' cannot be brought into the state '#{state}'",
                    hint: 'the states that a plan can have are :running and :stopped')
      end
    end

    def method_missing(name, *)
      Oedl.refuse("'#{name}' of resources is not known when a plan is made", hint: Oedl.hint_for(name))
    end
    def respond_to_missing?(*) = false
  end

  # Several groups at once: `allGroups`.
  class Groups < Group
    def initialize(groups)
      super('all groups', groups.flat_map(&:nodes).uniq)
      @groups = groups
    end

    def eachGroup(&block) = @groups.each(&block)
    alias each eachGroup
    alias each_group eachGroup

    private

    def chosen(name)
      found = @nodes.flat_map { |node| node.uses.map { |_, use| [node, use] } }
      found.select { |_, use| name.nil? || matches?(use, name.to_s) }.uniq
    end
  end

  # `defPrototype`.
  class Prototype
    attr_accessor :name, :description

    def initialize
      @defaults = {}
      @applications = []
    end

    def defProperty(name, _about = nil, default = nil, *)
      @defaults[name.to_s] = default
    end
    alias def_property defProperty

    def addApplication(application, options = {}, &block)
      @applications << [application, options, block]
    end
    alias add_application addApplication

    def apply(group, values)
      unknown = values.keys - @defaults.keys
      Oedl.refuse("the prototype has no property '#{unknown.first}'", hint: "it has #{@defaults.keys.join(', ')}") unless unknown.empty?
      values = @defaults.merge(values)
      @applications.each do |application, options, block|
        group.addApplication(application, options) do |use|
          block&.call(use)
          use.values.transform_values! do |value|
            next value unless value.is_a?(BoundName)
            values.fetch(value.name) { Oedl.refuse("the prototype has no property '#{value.name}'") }
          end
          use.values.compact!
          use.values.each { |name, value| use.application.checked(name, value) }
        end
      end
    end
  end

  # The name of a prototype's property, until it is known which value that has.
  BoundName = Struct.new(:name) do
    def to_s = name
  end
end
