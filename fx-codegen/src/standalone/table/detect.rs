//! Detection: boxes and regions of images.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::network::product;
use super::{Args, Emit, fields, list, optional, read, real, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces, Source};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("nms", nms),
    ("roi_align", align),
    ("roi_pool", pool),
    ("ps_roi_align", align),
    ("ps_roi_pool", own_pool),
    ("deform_conv2d", deform),
];

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
        "detection::nms",
        vec![read(&boxes), read(&scores), threshold, order, gone, written(&kept), written(&found)],
    );
    let symbol = l.local("found", 0, n.bounds().1);
    l.bind(vec![(symbol.clone(), Source::Element(found))]);
    l.adopted(&Arg::Leaf(View { shape: vec![Dim::symbol(symbol)], ..kept }), args.ty)
}

/// The operands of an operation on regions.
struct Pooled {
    images: View,
    regions: View,
    sizes: Pieces,
    dtype: DType,
    shape: Vec<Dim>,
}

fn pooled(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Pooled> {
    let (images, regions) = (args.view("input")?, args.view("rois")?);
    args.expect_float(images)?;
    let Some((dtype, shape)) = args.results().into_iter().next() else {
        bail!(Unresolved, "its result is {}", args.ty);
    };
    let ([count, channels, height, width], [_, _, rows, columns]) = (&images.shape[..], &shape[..]) else {
        bail!(Unresolved, "it pools images of other axes");
    };
    for side in [height, width, rows, columns] {
        l.require(side - 1);
    }
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
        ],
    );
    let (images, regions) = (l.contiguous(images), l.contiguous(regions));
    Ok(Pooled { images, regions, sizes, dtype, shape })
}

fn align(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Pooled { images, regions, sizes, dtype, shape } = pooled(l, args)?;
    let has_own = args.op.name == "ps_roi_align";
    let (ratio, aligned) = (args.int("sampling_ratio")?, has_own || args.flag("aligned")?);
    let how = text(format!("({ratio}, {aligned}, {has_own})"));
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("detect::roi_align", vec![read(&images), read(&regions), sizes, how, out]);
    Ok(match has_own {
        true => Arg::tuple([Arg::Leaf(view), numbered(l, &shape)]),
        false => Arg::Leaf(view),
    })
}

/// Returns from which channel each result of regions came that have channels of their own.
fn numbered(l: &mut Lowering<'_>, shape: &[Dim]) -> Value {
    let (from, out) = l.out(DType::I32, shape);
    l.call("detect::numbered", vec![size(&count(&shape[1..])), out]);
    Arg::Leaf(from)
}

fn pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Pooled { images, regions, sizes, dtype, shape } = pooled(l, args)?;
    let (view, out) = l.out(dtype, &shape);
    let (places, found) = l.out(DType::I32, &shape);
    l.call_fallible("detect::roi_pool", vec![read(&images), read(&regions), sizes, out, found]);
    Ok(Arg::tuple([Arg::Leaf(view), Arg::Leaf(places)]))
}

fn own_pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Pooled { images, regions, sizes, dtype, shape } = pooled(l, args)?;
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("detect::ps_roi_pool", vec![read(&images), read(&regions), sizes, out]);
    Ok(Arg::tuple([Arg::Leaf(view), numbered(l, &shape)]))
}

/// Writes what the taps see as a matrix for each image and group, and multiplies the weights by it.
fn deform(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let [x, weight, offset, bias] = ["input", "weight", "offset", "bias"].map(|name| args.view(name));
    let (x, weight, offset, bias) = (x?, weight?, offset?, bias?);
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    let ([n, channels, height, width], [filters, per_group, rows, columns], [_, _, high, wide]) =
        (&x.shape[..], &weight.shape[..], &shape[..])
    else {
        bail!(Unresolved, "it has images of other axes");
    };
    let (groups, offset_groups) = (args.size("groups")?, args.size("offset_groups")?);
    let pair = |names: [&str; 2]| -> Result<Pieces> {
        Ok(text(format!("[{}, {}]", args.int(names[0])?, args.int(names[1])?)))
    };
    let how = fields(
        "detect::Deformed",
        vec![
            ("channels", size(channels)),
            ("input", list(&[height.clone(), width.clone()])),
            ("kernel", list(&[rows.clone(), columns.clone()])),
            ("stride", pair(["stride_h", "stride_w"])?),
            ("padding", pair(["pad_h", "pad_w"])?),
            ("dilation", pair(["dilation_h", "dilation_w"])?),
            ("output", list(&[high.clone(), wide.clone()])),
            ("groups", size(&offset_groups)),
        ],
    );
    let (x, offset, weight) = (l.contiguous(x), l.contiguous(offset), l.contiguous(weight));
    let factors = match args.flag("use_mask")? {
        true => Some(read(&l.contiguous(args.view("mask")?))),
        false => None,
    };
    let (taps, places) = (&(per_group * rows) * columns, high * wide);
    let (seen, out) = l.out(dtype, &[n.clone(), groups.clone(), taps.clone(), places.clone()]);
    l.call("detect::deformed", vec![how, read(&x), read(&offset), optional(factors), out]);
    let filters = filters.floor_div(&groups);
    let weight = View {
        offset: weight.offset,
        ..View::whole(weight.home, dtype, &[groups.clone(), filters.clone(), taps])
    };
    let (view, out) = l.out(dtype, &shape);
    product(l, &weight, &seen, &[n.clone(), groups, filters, places], out)?;
    let one = Dim::new(1);
    let mut bias = bias.clone();
    if bias.rank() == 1 {
        bias.shape.extend([one.clone(), one]);
        bias.strides.extend([Dim::new(0), Dim::new(0)]);
    }
    l.add(&view, &bias)
}
