//! Detection: boxes and regions of images.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, fields, read, real, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Source};
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[("nms", nms), ("roi_align", align)];

fn nms(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (boxes, scores) = (args.view("dets")?, args.view("scores")?);
    args.expect_float(boxes)?;
    let (boxes, scores) = (l.contiguous(boxes), l.contiguous(scores));
    let n = scores.shape[0].clone();
    let kept = l.buffer(DType::I64, &scores.shape);
    let found = l.buffer(DType::I64, &[]);
    let (order, gone) = (l.spare(DType::I64, n.clone()), l.spare(DType::Bool, n.clone()));
    let written = |view: &View| vec![Piece::WriteView(view.clone())];
    let threshold = real(args.float("iou_threshold")?);
    l.call(
        "detect::nms",
        vec![read(&boxes), read(&scores), threshold, order, gone, written(&kept), written(&found)],
    );
    let symbol = l.local("found", 0, n.bounds().1);
    l.bind(vec![(symbol.clone(), Source::Element(found))]);
    l.adopted(&Arg::Leaf(View { shape: vec![Dim::symbol(symbol)], ..kept }), args.ty)
}

fn align(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (images, regions) = (args.view("input")?, args.view("rois")?);
    args.expect_float(images)?;
    let (dtype, shape) = args.result()?;
    let ([count, channels, height, width], [_, _, rows, columns]) = (&images.shape[..], &shape[..]) else {
        bail!(Unresolved, "it pools images of other axes");
    };
    l.require(height - 1);
    l.require(width - 1);
    let sizes = fields(
        "detect::Regions",
        vec![
            ("count", size(count)),
            ("channels", size(channels)),
            ("height", size(height)),
            ("width", size(width)),
            ("rows", size(rows)),
            ("columns", size(columns)),
            ("scale", real(args.float("spatial_scale")?)),
            ("ratio", text(args.int("sampling_ratio")?.to_string())),
            ("aligned", text(args.flag("aligned")?.to_string())),
        ],
    );
    let (images, regions) = (l.contiguous(images), l.contiguous(regions));
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("detect::roi_align", vec![read(&images), read(&regions), sizes, out]);
    Ok(Arg::Leaf(view))
}
