//! Which core a thread is on.
//!
//! Linux often wakes a thread on the core of the thread that woke it, and lets both share that core for many
//! milliseconds while another one is idle. Here a thread finds out and moves.

/// Returns the number of the core that runs this thread, where the system tells it.
#[cfg(target_os = "linux")]
pub(crate) fn core() -> Option<usize> {
    // SAFETY: the function has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Moves this thread to another core, if it may run on others. It may come back later.
#[cfg(target_os = "linux")]
pub(crate) fn leave_core() {
    let Some(core) = core() else { return };
    // SAFETY: all zeros is a valid set of cores.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the set is as long as is said, 0 is this thread, and the macros are given cores below the size
    // of a set.
    unsafe {
        if core >= 8 * size || libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return;
        }
        let mut others = allowed;
        libc::CPU_CLR(core, &mut others);
        if libc::CPU_COUNT(&others) > 0 && libc::sched_setaffinity(0, size, &others) == 0 {
            libc::sched_setaffinity(0, size, &allowed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn core() -> Option<usize> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn leave_core() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_its_core_and_keeps_its_rights() {
        let n = || std::thread::available_parallelism().expect("Linux knows").get();
        let (before, cores) = (core(), n());
        assert!(before.is_some());
        leave_core();
        assert_eq!(n(), cores);
    }
}
