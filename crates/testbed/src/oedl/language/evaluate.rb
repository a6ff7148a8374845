# Evaluates the script behind the end of this program, and writes the plan, or why there is none, as JSON.

answers = STDOUT.dup
$stdout = STDERR
text = DATA.read
seconds, octets = 5, 512 << 20
CHANCE = 1
begin
  Process.setrlimit(:CPU, seconds)
  Process.setrlimit(:AS, octets)
  Process.setrlimit(:FSIZE, 0)
rescue NotImplementedError, SystemCallError
  nil # the time is bounded from outside too
end
overrides = {}
ARGV.each_slice(2) { |name, value| overrides[name] = value }
ARGV.clear
# Two runs of a script are alike, also where it leaves something to chance.
srand(CHANCE)
Random.define_singleton_method(:new) { |seed = CHANCE| super(seed) }
plan = Oedl.plan = Oedl::Plan.new(overrides)
TOPLEVEL_BINDING.receiver.extend(Oedl::Commands)
Object.prepend(Oedl::Forbidden)
Experiment = Oedl::Experiment
OMF = Oedl
Oedl::Forbidden.take_away
begin
  plan.evaluate(text)
  answer = plan.to_json
rescue Oedl::Refusal => error
  answer = { error: { line: error.line, what: error.message, hint: error.hint } }.to_json
rescue NameError => error
  place = error.backtrace_locations&.find { |each| each.path == Oedl::SCRIPT }
  called = error.is_a?(NoMethodError) && error.receiver != TOPLEVEL_BINDING.receiver
  what = called ? "#{error.receiver.class} has no '#{error.name}'" : "there is no command or variable '#{error.name}'"
  answer = { error: { line: place&.lineno, what: what } }.to_json
rescue SyntaxError => error
  message = error.message.lines.first.to_s
  line = message[/\A#{Oedl::SCRIPT}:(\d+)/, 1]
  answer = { error: { line: line&.to_i, what: message.sub(/\A#{Oedl::SCRIPT}:\d+: /, '').strip } }.to_json
rescue NoMemoryError, SystemStackError, StandardError => error
  place = error.backtrace_locations&.find { |each| each.path == Oedl::SCRIPT }
  answer = { error: { line: place&.lineno, what: error.message.lines.first.to_s.strip } }.to_json
end
answers.write(answer)
answers.flush
