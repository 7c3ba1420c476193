//! In which pages large blocks of memory lie.
//!
//! A block of many megabytes in pages of 4 KiB takes a fault for each of them at first, and misses in the
//! buffer of translations later. Linux makes pages of 2 MiB where it is asked to
//! (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise`, as on most machines, or `always`), and
//! prefetches and copies run through them without a stop.

use std::ptr::NonNull;

/// The bytes of a huge page. Where the machine's are of another size, asking is of no use, and does no harm.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Asks Linux for transparent huge pages that lie entirely in a block, so that no more memory is taken than
/// the block has.
#[cfg(target_os = "linux")]
pub(crate) fn ask_for_huge(start: NonNull<u8>, bytes: usize) {
    let before = start.align_offset(HUGE);
    let inside = bytes.saturating_sub(before) / HUGE * HUGE;
    if inside > 0 {
        // SAFETY: the range lies in the block, and the advice changes no content. That the system may refuse
        // it is of no concern.
        unsafe { libc::madvise(start.as_ptr().add(before).cast(), inside, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for_huge(_: NonNull<u8>, _: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns whether the system was asked for huge pages where `address` is, as it tells itself.
    fn is_asked_for(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let mut here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let range = range.and_then(|(from, to)| {
                Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
            });
            match range {
                Some(range) => here = range.contains(&address),
                None if here && line.starts_with("VmFlags:") => return line.contains(" hg"),
                None => {}
            }
        }
        false
    }

    #[test]
    fn huge_pages_are_asked_for_in_large_blocks() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("skipped: this system has no huge pages to ask for");
            return;
        }
        let block: Vec<u8> = crate::reserve(64 << 20).expect("it fits");
        assert!(is_asked_for(block.as_ptr() as usize + 2 * HUGE));
        let zeros = crate::in_huge_pages(vec![0f32; 16 << 20]);
        assert!(is_asked_for(zeros.as_ptr() as usize + 2 * HUGE));
        assert!(zeros.iter().all(|&x| x == 0.0));
        crate::in_huge_pages(Vec::<()>::with_capacity(10));
        crate::in_huge_pages(Vec::<u64>::new());
    }
}
