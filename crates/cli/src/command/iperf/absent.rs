//! Options that iperf 2 has and this one has not.

use clap::Args;

use crate::failure::Failure;

/// Options of iperf 2 that this one has not, so that it can say which.
#[derive(Args, Debug)]
pub struct Absent {
    #[arg(short = 'd', long, hide = true)]
    dualtest: bool,
    #[arg(short = 'r', long, hide = true)]
    tradeoff: bool,
    #[arg(short = 'F', long, value_name = "FILE", hide = true)]
    fileinput: Option<String>,
    #[arg(short = 'I', long, hide = true)]
    stdin: bool,
    #[arg(short = 'L', long, value_name = "PORT", hide = true)]
    listenport: Option<u16>,
    #[arg(short = 'M', long, value_name = "OCTETS", hide = true)]
    mss: Option<u32>,
    #[arg(
        short = 'Z',
        long = "linux-congestion",
        value_name = "NAME",
        hide = true
    )]
    congestion: Option<String>,
    #[arg(short = 'o', long, value_name = "FILE", hide = true)]
    output: Option<String>,
    #[arg(short = 'x', long, value_name = "WHAT", hide = true)]
    reportexclude: Option<String>,
    #[arg(short = 'm', long, hide = true)]
    print_mss: bool,
    #[arg(short = 'C', long, hide = true)]
    compatibility: bool,
    #[arg(short = 'V', long = "IPv6Version", hide = true)]
    version6: bool,
}

impl Absent {
    /// Refuses an option that is not there. Older versions and IPv6 need not be told: either is found out.
    pub fn check(&self) -> Result<(), Failure> {
        let asked = [
            ("-d", self.dualtest, "run a client on each side"),
            ("-r", self.tradeoff, "run one client after the other"),
            ("-F", self.fileinput.is_some(), "dhow send sends files"),
            ("-I", self.stdin, "dhow send sends what it reads"),
            ("-L", self.listenport.is_some(), "run a client on each side"),
            (
                "-M",
                self.mss.is_some(),
                "a smaller MTU of the interface does the same",
            ),
            (
                "-Z",
                self.congestion.is_some(),
                "sysctl net.ipv4.tcp_congestion_control says it for all",
            ),
            (
                "-o",
                self.output.is_some(),
                "write standard output to the file",
            ),
            ("-x", self.reportexclude.is_some(), "-y O writes no reports"),
            ("-m", self.print_mss, "ss -i shows it"),
        ];
        match asked.iter().find(|(_, is_asked, _)| *is_asked) {
            Some((option, _, hint)) => Err(Failure::usage(format!(
                "iperf's option {option} is not there"
            ))
            .with_hint(*hint)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory as _, Parser};
    use dhow_testbed::oedl::{OedlError, Script, evaluate};

    use super::*;
    use crate::arguments::Arguments;

    /// Says each property of applications that need no definition: command, option and type.
    const ALL: &str = "Oedl::BUILTIN.values.uniq.each { |a| a.parameters.each_value { |p| info \"#{a.path} #{p.word} #{p.type}\" } }";

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        absent: Absent,
    }

    fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
        let named = |arg: &&Arg| match word.strip_prefix("--") {
            Some(long) => {
                arg.get_long() == Some(long)
                    || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
            }
            None => {
                let short = word.chars().nth(1);
                let aliases = arg.get_all_short_aliases().unwrap_or_default();
                arg.get_short() == short || aliases.into_iter().any(|each| Some(each) == short)
            }
        };
        command.get_arguments().find(named)
    }

    #[test]
    fn each_property_in_scripts_is_an_option_that_its_command_takes() {
        let plan = match evaluate(&Script::new(ALL), &[]) {
            Err(OedlError::NoRuby) => return,
            plan => plan.unwrap(),
        };
        let root = Arguments::command();
        assert!(plan.notes.len() > 40, "{}", plan.notes.len());
        for note in &plan.notes {
            let words: Vec<&str> = note.what.split(' ').collect();
            let ["dhow", name, word, kind] = words[..] else {
                panic!("{words:?}")
            };
            let command = root.find_subcommand(name).unwrap();
            let Some(option) = option(command, word) else {
                panic!("{name} has no {word}")
            };
            let is_switch = kind == "boolean";
            let values = option.get_num_args();
            let takes_value = option.get_action().takes_values()
                || values.is_some_and(|values| values.takes_values());
            assert_eq!(is_switch, !takes_value, "{name} {word}");
            if name == "iperf" {
                let value = (!is_switch).then_some("1");
                let asked = Only::try_parse_from(["iperf", word].into_iter().chain(value));
                let is_refused = asked.is_ok_and(|only| only.absent.check().is_err());
                assert!(!is_refused, "iperf refuses {word}");
            }
        }
    }
}
