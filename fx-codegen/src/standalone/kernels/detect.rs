//! Detection: all regions of images, and what a deformable convolution sees.

use super::detection::Grid;
pub use super::detection::{Deformed, Regions};
use super::math::Real;

/// Calls `run` with each region `[k, 5]`, the planes of its image, and where its results begin.
fn each<T: Real>(
    images: &[T],
    regions: &[T],
    sizes: Regions,
    len: usize,
    mut run: impl FnMut(&[T], &[T], usize) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    for (k, region) in regions.chunks_exact(5).enumerate() {
        let image = sizes.image(region).ok_or("a region is of an image that does not exist")?;
        run(region, sizes.planes(images, image), k * len)?;
    }
    Ok(())
}

/// Takes the means of bilinear samples in the bins of regions `[k, 5]`: an image and the corners.
pub fn roi_align<T: Real>(
    images: &[T],
    regions: &[T],
    sizes: Regions,
    (ratio, aligned, has_own): (i64, bool, bool),
    out: &mut [T],
) -> Result<(), &'static str> {
    let channels = if has_own { sizes.channels / (sizes.rows * sizes.columns) } else { sizes.channels };
    let len = channels * sizes.rows * sizes.columns;
    each(images, regions, sizes, len, |region, image, at| {
        let grid =
            Grid::new(&sizes, region, ratio, aligned).map_err(|_| "a region needs too many samples")?;
        sizes.align(&grid, image, has_own, &mut out[at..][..len]);
        Ok(())
    })
}

/// Takes the maxima of the pixels in the bins of regions, and their places.
pub fn roi_pool<T: Real>(
    images: &[T],
    regions: &[T],
    sizes: Regions,
    out: &mut [T],
    places: &mut [i32],
) -> Result<(), &'static str> {
    let len = sizes.channels * sizes.rows * sizes.columns;
    each(images, regions, sizes, len, |region, image, at| {
        sizes.max(region, image, &mut out[at..][..len], &mut places[at..][..len]);
        Ok(())
    })
}

/// Takes the means of the pixels in the bins of regions, which have channels of their own.
pub fn ps_roi_pool<T: Real>(
    images: &[T],
    regions: &[T],
    sizes: Regions,
    out: &mut [T],
) -> Result<(), &'static str> {
    let bins = sizes.rows * sizes.columns;
    let len = sizes.channels / bins * bins;
    each(images, regions, sizes, len, |region, image, at| {
        sizes.mean(region, image, &mut out[at..][..len]);
        Ok(())
    })
}

/// Numbers the results of a region, which are `of` ones.
pub fn numbered(of: usize, out: &mut [i32]) {
    out.chunks_exact_mut(if of == 0 { 1 } else { of })
        .for_each(|out| out.iter_mut().zip(0..).for_each(|(out, i)| *out = i));
}

/// Writes what each tap of a deformable convolution sees, `[n * channels * taps, places]`.
pub fn deformed<T: Real>(how: Deformed, x: &[T], offsets: &[T], factors: Option<&[T]>, out: &mut [T]) {
    let places = how.output[0] * how.output[1];
    if places > 0 {
        out.chunks_exact_mut(places)
            .enumerate()
            .for_each(|(row, out)| how.row(row, x, offsets, factors, out));
    }
}
