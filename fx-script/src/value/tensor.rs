//! Tensors that share storages: a write through one view is seen through all others.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::array::{StridedIndex, dispatch_dtype, is_row_major, row_major};
use fx_core::{Array, DType, Result, Sizes, Strides, bail, err};

use super::cell::Footprint;
use super::{Cell, Value, transaction};

/// A tensor. A copy of the reference is another name of the same tensor.
pub type TensorRef = Arc<TensorCell>;

/// A tensor: where its elements lie in a storage.
pub type TensorCell = Cell<Geometry>;

/// The elements of a storage in order, as an array of any sizes.
#[derive(Clone, Debug)]
struct Flat(Array);

impl Footprint for Flat {
    fn bytes(&self) -> usize {
        self.0.nbytes()
    }
}

/// A storage and the places in it.
#[derive(Clone, Debug)]
pub struct Geometry {
    storage: Arc<Cell<Flat>>,
    dtype: DType,
    shape: Sizes,
    strides: Strides,
    offset: usize,
    /// Whether elements are complex: pairs of reals along a last axis that the program does not see.
    is_complex: bool,
    requires_grad: bool,
}

impl Footprint for Geometry {
    fn bytes(&self) -> usize {
        size_of::<Geometry>()
    }
}

impl Geometry {
    /// Returns whether elements are real, of a dtype and of these sizes.
    pub fn is_real(&self, dtype: DType, shape: &[usize]) -> bool {
        !self.is_complex && self.dtype == dtype && *self.shape == *shape
    }

    fn array(&self) -> Result<Array> {
        self.storage.read(|Flat(flat)| match self.offset {
            0 if *self.shape == *flat.shape() && *self.strides == *flat.strides() => Ok(flat.clone()),
            offset => flat.as_strided(&self.shape, &self.strides, offset),
        })
    }

    /// Whether the elements are the whole storage in order.
    fn is_whole(&self) -> bool {
        self.offset == 0
            && is_row_major(&self.shape, &self.strides)
            && self.storage.read(|flat| flat.0.numel()) == self.shape.iter().product::<usize>()
    }

    /// The geometry of an array that is a view of the same storage.
    fn of_view(&self, view: &Array) -> Option<Geometry> {
        let base = self.storage.read(|flat| flat.0.shares_storage(view).then(|| flat.0.offset()))?;
        Some(Geometry {
            shape: view.shape().into(),
            strides: view.strides().into(),
            offset: view.offset().checked_sub(base)?,
            ..self.clone()
        })
    }
}

impl TensorCell {
    /// Makes a tensor with a storage of its own. Fails if memory cannot hold it.
    pub fn of(array: Array) -> Result<TensorRef> {
        let array = if array.is_contiguous() { array } else { array.contiguous()? };
        let (dtype, shape) = (array.dtype(), Sizes::from_slice(array.shape()));
        let strides = row_major(&shape);
        Ok(Arc::new(Cell::new(Geometry {
            storage: Arc::new(Cell::new(Flat(array))),
            dtype,
            shape,
            strides,
            offset: 0,
            is_complex: false,
            requires_grad: false,
        })))
    }

    /// Makes a complex tensor of pairs of reals along the last axis. Fails if that axis has not 2 elements.
    pub fn complex_of(array: Array) -> Result<TensorRef> {
        if array.shape().last() != Some(&2) {
            bail!(Shape, "expected pairs of real and imaginary parts, got {}", array.describe());
        }
        let tensor = TensorCell::of(array)?;
        tensor.edit(|geometry| geometry.is_complex = true);
        Ok(tensor)
    }

    /// Returns the elements as they are now. Fails if memory cannot hold them.
    pub fn array(&self) -> Result<Array> {
        self.read(Geometry::array)
    }

    /// Returns the sizes; a complex tensor has those that the program sees.
    pub fn shape(&self) -> Sizes {
        self.read(|geometry| match geometry.is_complex {
            true => geometry.shape[..geometry.shape.len() - 1].into(),
            false => geometry.shape.clone(),
        })
    }

    /// Returns the strides in elements.
    pub fn strides(&self) -> Strides {
        self.read(|geometry| match geometry.is_complex {
            true => geometry.strides[..geometry.strides.len() - 1].iter().map(|stride| stride / 2).collect(),
            false => geometry.strides.clone(),
        })
    }

    /// Returns the offset in the storage, in elements.
    pub fn storage_offset(&self) -> usize {
        self.read(|geometry| geometry.offset / if geometry.is_complex { 2 } else { 1 })
    }

    /// Returns the dtype of the elements, or of the parts of complex ones.
    pub fn dtype(&self) -> DType {
        self.read(|geometry| geometry.dtype)
    }

    /// Returns whether the elements are complex.
    pub fn is_complex(&self) -> bool {
        self.read(|geometry| geometry.is_complex)
    }

    /// Returns whether the elements lie in order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.read(|geometry| is_row_major(&geometry.shape, &geometry.strides))
    }

    /// Returns whether the tensor asks for gradients.
    pub fn requires_grad(&self) -> bool {
        self.read(|geometry| geometry.requires_grad)
    }

    /// Sets whether the tensor asks for gradients, which changes no value.
    pub fn set_requires_grad(self: &Arc<Self>, wanted: bool) {
        if self.requires_grad() != wanted {
            self.edit(|geometry| geometry.requires_grad = wanted);
        }
    }

    /// Returns whether two tensors have one storage.
    pub fn shares_storage(&self, other: &TensorCell) -> bool {
        let storage = |cell: &TensorCell| cell.read(|geometry| Arc::clone(&geometry.storage));
        Arc::ptr_eq(&storage(self), &storage(other))
    }

    /// Returns a number that tensors of one storage share, as long as one of them lives.
    pub fn storage_id(&self) -> usize {
        self.read(|geometry| Arc::as_ptr(&geometry.storage) as usize)
    }

    /// Makes a tensor of these sizes and strides over the storage, from the element `offset` on. Fails if they
    /// lead out of it.
    pub fn strided(&self, shape: &[usize], strides: &[isize], offset: usize) -> Result<TensorRef> {
        let view = self
            .read(|geometry| geometry.storage.read(|Flat(flat)| flat.as_strided(shape, strides, offset)))?;
        self.view_of(view, false)
    }

    /// Makes a tensor of an array that may be a view of this tensor: then it shares the storage, else it has
    /// one of its own. Fails if memory cannot hold it.
    pub fn view_of(&self, view: Array, is_complex: bool) -> Result<TensorRef> {
        let shared = self.read(|geometry| geometry.of_view(&view));
        match shared {
            Some(geometry) => Ok(Arc::new(Cell::new(Geometry { is_complex, ..geometry }))),
            None if is_complex => TensorCell::complex_of(view),
            None => TensorCell::of(view),
        }
    }

    /// Makes another tensor of the same elements.
    pub fn alias(&self) -> TensorRef {
        Arc::new(Cell::new(self.read(Clone::clone)))
    }

    /// Makes this tensor another view of its storage, as `unsqueeze_` does; an array of another storage is taken
    /// over with it. Fails if memory cannot hold it.
    pub fn become_view(self: &Arc<Self>, view: Array) -> Result<()> {
        let other = self.view_of(view, self.is_complex())?.read(Clone::clone);
        let old = self.edit(|geometry| std::mem::replace(geometry, other));
        drop(old);
        Ok(())
    }

    /// Makes this tensor a view of the storage of another, as `set_` and assignments to `.data` do.
    pub fn become_alias(self: &Arc<Self>, other: &TensorCell) {
        let other = other.read(Clone::clone);
        let old = self.edit(|geometry| std::mem::replace(geometry, other));
        drop(old);
    }

    /// Gives the tensor the shape of an array and writes its elements, cast to the dtype of the tensor: operators
    /// write to `out` so. The storage grows if it is too short; other views of it stay, and see what is
    /// written. Fails if memory cannot hold it.
    pub fn resize_and_write(self: &Arc<Self>, new: &Array) -> Result<()> {
        let (storage, offset) = self.read(|geometry| (geometry.storage.clone(), geometry.offset));
        let (shape, needed) = (Sizes::from_slice(new.shape()), offset + new.numel());
        storage.edit(|Flat(flat)| -> Result<()> {
            if flat.numel() < needed {
                dispatch_dtype!(flat.dtype(), T => {
                    let mut elements = flat.to_vec::<T>()?;
                    elements.resize(needed, T::default());
                    *flat = Array::from_vec(elements, &[needed])?;
                });
            }
            Ok(())
        })?;
        self.edit(|geometry| {
            geometry.strides = row_major(&shape);
            geometry.shape = shape;
        });
        self.write(new)
    }

    /// Writes elements through the view, cast to its dtype and broadcast to its shape. Fails if the shape does
    /// not fit, or several places of the view are one element.
    pub fn write(&self, new: &Array) -> Result<()> {
        let geometry = self.read(Clone::clone);
        let new = if new.dtype() == geometry.dtype { new.clone() } else { new.cast(geometry.dtype) };
        let new = if *new.shape() == *geometry.shape { new } else { new.broadcast_to(&geometry.shape)? };
        if geometry.is_whole() {
            let new = new.contiguous()?;
            let old = geometry.storage.edit(|storage| std::mem::replace(storage, Flat(new)));
            drop(old);
            return Ok(());
        }
        if geometry.shape.iter().zip(&geometry.strides).any(|(&size, &stride)| size > 1 && stride == 0) {
            return Err(err!(
                Argument,
                "several places of the written tensor are one element: its strides are {:?}",
                &geometry.strides[..]
            )
            .help("clone the expanded tensor first"));
        }
        geometry.storage.edit(|Flat(flat)| {
            dispatch_dtype!(geometry.dtype, T => {
                let elements = new.to_vec::<T>()?;
                if flat.get_mut::<T>().is_none() {
                    *flat = Array::from_vec(flat.to_vec::<T>()?, &[flat.numel()])?;
                }
                let target = flat.get_mut::<T>().expect("the elements were just made");
                let places = StridedIndex::new(&geometry.shape, [(&geometry.strides, geometry.offset)]);
                for ([at], element) in places.zip(elements) {
                    target[at] = element;
                }
            });
            Ok(())
        })
    }

    /// Returns the only element as a number. Fails if there is none or more than one.
    pub fn item(&self) -> Result<Value> {
        let array = self.array()?;
        if self.is_complex() {
            if array.numel() != 2 {
                bail!(Shape, "a tensor with {} elements cannot be converted to a number", array.numel() / 2);
            }
            let parts = array.to_vec_f64()?;
            return Ok(Value::complex(parts[0], parts[1]));
        }
        if array.numel() != 1 {
            bail!(Shape, "a tensor with {} elements cannot be converted to a number", array.numel());
        }
        Ok(array.item()?.into())
    }

    /// Returns the tensor as `str` and `print` spell it. Fails if memory cannot hold it.
    pub fn shown(&self) -> Result<String> {
        let array = self.array()?;
        transaction::charge(array.numel() as u128 * 12)?;
        super::display::tensor_text(&array, self.is_complex())
    }
}

trait ToF64 {
    fn to_vec_f64(&self) -> Result<Vec<f64>>;
}

impl ToF64 for Array {
    fn to_vec_f64(&self) -> Result<Vec<f64>> {
        self.cast(DType::F64).to_vec::<f64>()
    }
}

impl Value {
    /// Makes a tensor with a storage of its own. Fails if memory cannot hold it.
    pub fn tensor(array: Array) -> Result<Value> {
        TensorCell::of(array).map(Value::Tensor)
    }
}

/// Makes the tensors of an archive, so that those of one storage share it.
#[derive(Debug, Default)]
pub struct Storages(HashMap<(usize, DType), Arc<Cell<Flat>>>);

impl Storages {
    /// Makes a tensor that is `shape` with `strides` from `offset` of the storage `flat`, an array of one axis.
    /// Complex tensors count parts. Fails if a place lies outside of the storage.
    pub fn tensor(
        &mut self,
        flat: &Array,
        shape: &[usize],
        strides: &[usize],
        offset: usize,
        is_complex: bool,
    ) -> Result<TensorRef> {
        let strides: Strides = strides.iter().map(|&stride| stride as isize).collect();
        flat.as_strided(shape, &strides, offset)?;
        let address = dispatch_dtype!(flat.dtype(), T => flat.data::<T>()?.as_ptr() as usize);
        let storage =
            self.0.entry((address, flat.dtype())).or_insert_with(|| Arc::new(Cell::new(Flat(flat.clone()))));
        // Empty storages have no address of their own.
        let storage = match flat.is_empty() {
            true => Arc::new(Cell::new(Flat(flat.clone()))),
            false => Arc::clone(storage),
        };
        Ok(Arc::new(Cell::new(Geometry {
            storage,
            dtype: flat.dtype(),
            shape: shape.into(),
            strides,
            offset,
            is_complex,
            requires_grad: false,
        })))
    }
}
