//! Mistakes that a person could make, planted on purpose.
//!
//! A simulation that finds nothing means something only if it finds mistakes that are there. With the feature `mutants`, which tests
//! alone turn on, one of these can be chosen; without it [`planted`] is `false` where the compiler sees it, and nothing is left of the places that ask.

/// The enum of all mistakes, and the list of them.
macro_rules! mistakes {
    ($($(#[$meaning:meta])* $name:ident,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$meaning])* $name,)*
        }

        impl Mutant {
            /// All mistakes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

mistakes! {
    /// The store says that bundles are durable before the sync that makes them so.
    DurableBeforeSync,
    /// A bundle that was delivered is not known again when it comes once more.
    DuplicatesForgotten,
    /// A restart does not look behind the last mark in the log.
    TailDropped,
    /// A segment may be one octet longer than the peer takes.
    SegmentTooLong,
    /// A bundle from a node without a clock ages by this node's.
    ExpiryByWrongClock,
    /// The octets of fragments that overlap are taken twice: each from its first octet.
    OverlapTakenTwice,
    /// Octets are read however many wait for the disk.
    QueueWithoutBound,
    /// A link that could not be dialled is not dialled again.
    TimerNotRearmed,
    /// An acknowledgment names its segment's length, not the sum of all.
    LengthsNotSummed,
    /// After a restart creation timestamps begin anew.
    TimestampsReused,
    /// A session in which nothing is to be said stays silent.
    KeepaliveForgotten,
    /// A bundle leaves with the hop count that it came with.
    HopsNotCounted,
    /// A bundle leaves with the age that it came with.
    AgeStandsStill,
    /// A bundle leaves with the previous node block that it came with.
    PreviousNodeKept,
    /// The offset of a fragment of a fragment is counted from the fragment.
    OffsetOfFragment,
    /// Fragments but the first have no hop count and age.
    BlocksOfFirstFragment,
    /// A bundle without creation time counts as new wherever it comes.
    AgeBlockIgnored,
    /// A copy is known while the first is on its way to the disk.
    CopyTakenWhileArriving,
    /// A bundle that was delivered as a whole is not known from its fragments.
    FragmentOfDeliveredTaken,
    /// An incoming bundle is not compared with the octets that are left.
    QuotaOfOctetsIgnored,
    /// An incoming bundle is not compared with the bundles that are left.
    QuotaOfBundlesIgnored,
    /// A large bundle that comes in reserves no more than at its beginning.
    StepsNotReserved,
    /// A bundle is acknowledged as soon as the store has been asked to keep it.
    AcknowledgedAtCommit,
    /// Octets that an abandoned bundle had reserved and not brought stay reserved.
    RoomLeaks,
    /// A bundle for a neighbour wakes no session with it.
    NeighbourNotWoken,
    /// A bundle for an application waits until another thing wakes it.
    ApplicationNotWoken,
    /// All bundles wait as those of normal priority do.
    PriorityIgnored,
    /// A router gives copies in the order in which they came, whatever their priority.
    PriorityOfCopiesIgnored,
    /// A bundle that comes from a neighbour never expires.
    ExpiryOfKeptForgotten,
    /// Bundles that wait are deleted an hour after they have expired.
    ExpiryPutOff,
    /// A bundle that expired on its way to a neighbour is not deleted when it is back.
    DoomForgotten,
    /// A bundle that rests is not woken by time.
    RestForEver,
    /// A report of reception tells that a bundle was forwarded.
    StatusOfReport,
    /// A report of a fragment tells of the whole bundle.
    SubjectOfReport,
    /// A report goes to the source, whomever the bundle names.
    ReportToSource,
    /// All that a node reports is reported of bundles that ask for something else.
    ReportNotAskedFor,
    /// A report of a deletion gives no reason.
    ReasonOfReport,
    /// A bundle is forwarded without a report.
    ForwardingNotReported,
    /// A bundle is delivered without a report.
    DeliveryNotReported,
    /// A neighbour without room is asked again at once.
    PauseForgotten,
    /// A neighbour without room is not asked again.
    PauseForEver,
    /// A transfer that follows has a number too high.
    TransferNumbersSkip,
    /// Octets that a session's peer has acknowledged stay in its window.
    WindowLeaks,
    /// The time that a node was off does not count for the age.
    TimeOffForgotten,
    /// A bundle that a restart finds lives as long as a new one.
    LifetimeAnew,
    /// A restart remembers what was delivered for no time.
    ConfirmedForgottenAtStart,
    /// The store is not asked to remember what was delivered.
    ConfirmationNotKept,
    /// Bundles that share octets are counted as if both were there.
    RoomOfDeletedKept,
    /// A bundle is forwarded when its last fragment has left.
    LastFragmentNotAwaited,
    /// A fragment that was refused counts as taken.
    RefusedFragmentForgotten,
    /// A transfer goes on one octet behind what the next hop has.
    HandedTooFar,
    /// Fragments make a whole when their lengths add up to it.
    LengthsAddedUp,
    /// A delivery that was declined counts as confirmed.
    DeclinedIsDelivered,
    /// A bundle that an application had not confirmed when it was gone is not delivered again.
    LostConnectionConfirms,
    /// Fragments of a bundle that was delivered otherwise stay.
    FragmentsLeftBehind,
    /// A session that passes on a bundle which does not come waits for it.
    BrokenPassGoesOn,
    /// A bundle that is passed on begins with the header as it came.
    HeaderPassedAgain,
    /// A confirmed bundle that the store could not keep is remembered in memory alone.
    OrphanForgotten,
    /// A bundle that an application confirmed before it was durable stays.
    ConfirmedAheadNotDeleted,
    /// The first part of a bundle is acknowledged when the store is asked to keep it.
    ReactiveFragmentAcknowledgedAtOnce,
    /// The acknowledged part of a bundle that does not come to its end is dropped.
    ReactiveFragmentDropped,
    /// Without a clock, no sequence number is reserved after the first ones.
    SequenceNotReserved,
    /// All bundles of one millisecond have one sequence number.
    SequenceStandsStill,
    /// An acknowledgment has no flags.
    FlagsNotRepeated,
    /// A transfer that was refused for lack of room counts as taken.
    RefusedIsTaken,
    /// A transfer is announced with fewer octets than it has.
    LengthWithoutTrailer,
    /// A transfer is over when its last segment is acknowledged in part.
    AcknowledgedIsSent,
    /// The identity of a removed bundle is not in the record of its deletion.
    RemovalOnlyInMemory,
    /// A checkpoint does not have what is remembered of removed bundles.
    CheckpointWithoutRemoved,
    /// A checkpoint does not have what is reserved of creation timestamps.
    CheckpointWithoutReserved,
    /// A restart does not heed the deletions behind the last checkpoint.
    DeletionsNotReplayed,
    /// A restart does not compare what no mark covers with its checksums.
    TornPayloadTrusted,
    /// A few octets are told to be durable without a flush.
    FewOctetsNotSynced,
    /// A reservation of creation timestamps is told to be durable and not written.
    ReservationNotWritten,
    /// An application is told that its bundle is kept when the store is asked to keep it.
    AcceptedAtOnce,
    /// A bundle lives as long as the node says, whatever its sender asks for.
    LifetimeOfNode,
    /// A whole of fragments is delivered with the identity of the first.
    HeadOfFragment,
    /// A bundle that came from the best hop rests, although another may take it.
    DetourNotTaken,
    /// A bundle may go back to the neighbour that it came from.
    SentBack,
    /// A bundle that goes another way than the best does not come back from a session that ends.
    DetourLostWithSession,
    /// A bundle that goes another way than the best waits for that one, whichever better one is up.
    DetourWithoutOthers,
    /// A bundle that goes another way than the best wakes no session there.
    DetourNotWoken,
    /// A bundle that the best hop may not have waits behind all that may go there.
    DetourBehindOthers,
    /// A bundle that does not fit with its header for the next hop is kept for that one.
    GrowthIgnored,
    /// A bundle that its destination's node has is deleted while another copy is on its way.
    DeletedWhileCopied,
    /// The octets that one neighbour has of a bundle count as those that every neighbour has.
    MarkShared,
    /// A copy goes back to the neighbour that the bundle came from.
    CopySentBack,
    /// Octets of a transfer by datagrams that came early are given the last first.
    EarlyOctetsBackwards,
    /// A bundle that is to be kept once it has left over UDP is removed.
    KeptIsForgotten,
    /// A note is told to be durable and not written.
    NoteNotWritten,
    /// A neighbour that tells nothing is waited for as long as its session lasts.
    AdvertAwaitedForEver,
    /// Every neighbour is thought to have what one of them tells of.
    AdvertForEverybody,
    /// In TCPCLv3, an acknowledgment names its segment's length, not the sum of all.
    OlderLengthsNotSummed,
    /// In TCPCLv3, a segment is acknowledged when it is here.
    OlderAcknowledgedOnArrival,
    /// In TCPCLv3, refusals of segments that crossed the first are taken for answers to the next bundle.
    OlderRefusalsUncounted,
    /// A bundle in custody is let go when the next hop has it, before anybody says to have custody.
    CustodyDroppedAtNextHop,
    /// A custodian is not told that another has its bundle.
    SignalNotSent,
    /// A signal is waited for a day before a bundle leaves again.
    CustodyTimerIgnored,
    /// A copy of a bundle that is here ends without a word to its custodian.
    RedundantNotTold,
    /// A restart does not know which bundles are in custody.
    CustodyForgottenAtStart,
    /// Custody of one fragment ends that of the whole.
    CustodyOfFragment,
    /// After a restart the numbers of bundles in custody begin anew.
    CustodyIdNotReserved,
    /// A bundle that any neighbour has counts as one that is where it was to go.
    AnyNeighbourIsDestination,
    /// A fragment that is at its destination counts as the whole.
    FragmentAcknowledgesWhole,
    /// A bundle that begins to come in at its destination counts as one that is there.
    AcknowledgedBeforeStored,
    /// A full store drops copies where no policy says so.
    DropsWithoutPolicy,
    /// Bundles that were made here make room for others.
    DropsOwn,
    /// Copies that sessions have on their way make room for others.
    DropsInFlight,
    /// A node that hands copies of a bundle on may make as many as before.
    PermitsNotHalved,
    /// A bundle that came may be copied as often as one that is made here.
    PermitsAnew,
    /// A node may be given a copy of a bundle that it has been given.
    GivenForgotten,
    /// All checkpoints of a session of LTP have one number.
    CheckpointNumberStandsStill,
    /// The report that completes the claims of a block leaves before the block is durable.
    ReportedBeforeDurable,
    /// Octets that a report lacks are sent again from one octet before.
    WrongOctetsAgain,
    /// A cancellation by the sender of a block is not heeded.
    BlockCancellationIgnored,
    /// Countdowns go on while the peer cannot transmit.
    CountdownInSilence,
    /// The scope of a report ends an octet before its claims.
    ClaimOutsideScope,
    /// A late segment of a block that is over opens its session anew.
    LateSegmentOpens,
    /// A block is complete when its end has come.
    RedPartTrusted,
    /// The acknowledgment of a report names the next one.
    NextReportAcknowledged,
    /// Acknowledgments of reports are not heeded.
    ReportAcknowledgmentIgnored,
    /// Octets behind a gap go to the store at their place in the payload, not in the bundle.
    EarlyOctetsMisplaced,
    /// A router gives a neighbour its own bundles in their turn among all others.
    DestinationNotFirst,
    /// A copy that begins to come in ends another that a neighbour is bringing.
    CopiesTakenFromEachOther,
    /// A source may have more bundles in a store than its share.
    ShareOfSourceIgnored,
    /// A neighbour without room for a source's bundles is given others of that source.
    ShortageForgotten,
    /// A neighbour without room for a source's bundles is never given another of that source.
    ShortageForEver,
    /// In the simulator, a host sends although a radio at one end of the link is busy.
    RadioNotAwaited,
    /// In the simulator, sending takes nothing from a battery.
    SendingTakesNothing,
    /// In the simulator, a host whose battery is empty keeps its contacts.
    EmptyBatterySends,
}

impl Mutant {
    /// Its place in [`Self::ALL`].
    #[must_use]
    pub const fn number(self) -> usize {
        #[expect(clippy::as_conversions, reason = "the number that the enum gives")]
        let number = self as usize;
        number
    }
}

/// Whether a mistake is to be made: never.
#[cfg(not(feature = "mutants"))]
#[must_use]
#[inline]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use chosen::{plant, planted, take_reached};

#[cfg(feature = "mutants")]
mod chosen {
    extern crate std;

    use core::cell::Cell;
    use std::thread_local;

    use super::Mutant;

    thread_local! {
        /// The mistake that all nodes of this thread make.
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
        /// Times that each place was asked whether it is to make its mistake.
        static REACHED: [Cell<u64>; Mutant::ALL.len()] = const { [const { Cell::new(0) }; Mutant::ALL.len()] };
    }

    /// Chooses the mistake that all nodes of this thread make from now on.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.with(|planted| planted.set(mutant));
    }

    /// Whether a mistake is to be made. The place counts as reached, whichever mistake is planted.
    #[must_use]
    pub fn planted(mutant: Mutant) -> bool {
        REACHED.with(|all| {
            if let Some(reached) = all.get(mutant.number()) {
                reached.set(reached.get().saturating_add(1));
            }
        });
        PLANTED.with(Cell::get) == Some(mutant)
    }

    /// Times that the place of each mistake was reached in this thread since this was asked last, in the order of [`Mutant::ALL`].
    pub fn take_reached() -> [u64; Mutant::ALL.len()] {
        REACHED.with(|all| core::array::from_fn(|at| all.get(at).map_or(0, Cell::take)))
    }
}
