//! Editing: arguments, uses, position, names, erasing, and the cursor.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Graph, Undo};
use crate::fresh::NamedSizes;
use crate::names::Namespace;
use crate::node::{Kwargs, Node, NodeId, NodeMeta, OpCode, Target};
use crate::{Arg, Op, Result, bail, err};

impl Graph {
    /// Replaces the positional arguments of `id`; for the output, the one returned value. Fails if `id` is
    /// stale, or an argument is not defined before it.
    pub fn set_args(&mut self, id: NodeId, args: impl IntoIterator<Item = Arg>) -> Result<()> {
        let kwargs = self.node(id)?.kwargs.clone();
        self.set_all_args(id, args.into_iter().collect(), kwargs)
    }

    /// Replaces the keyword arguments of `id`. Fails as [`set_args`](Self::set_args) does.
    pub fn set_kwargs(
        &mut self,
        id: NodeId,
        kwargs: impl IntoIterator<Item = (Arc<str>, Arg)>,
    ) -> Result<()> {
        let args = self.node(id)?.args.clone();
        self.set_all_args(id, args, kwargs.into_iter().collect())
    }

    /// Replaces positional argument `index` of `id`. Fails if there is no such argument, or as
    /// [`set_args`](Self::set_args) does.
    pub fn set_arg(&mut self, id: NodeId, index: usize, arg: impl Into<Arg>) -> Result<()> {
        let node = self.node(id)?;
        let mut args = node.args.clone();
        let n_args = args.len();
        *args.get_mut(index).ok_or_else(|| {
            err!(Argument, "argument {index} of %{} does not exist, it has {n_args}", node.name())
        })? = arg.into();
        let kwargs = node.kwargs.clone();
        self.set_all_args(id, args, kwargs)
    }

    /// Inserts a positional argument before the one at `index`. Fails if there are fewer than `index`
    /// arguments, or as [`set_args`](Self::set_args) does.
    pub fn insert_arg(&mut self, id: NodeId, index: usize, arg: impl Into<Arg>) -> Result<()> {
        let node = self.node(id)?;
        let (mut args, kwargs) = (node.args.clone(), node.kwargs.clone());
        if index > args.len() {
            bail!(Argument, "cannot insert argument {index} of %{}, it has {}", node.name(), args.len());
        }
        args.insert(index, arg.into());
        self.set_all_args(id, args, kwargs)
    }

    /// Sets keyword argument `key` of `id`, adding it if it is absent. Fails as [`set_args`](Self::set_args)
    /// does.
    pub fn set_kwarg(&mut self, id: NodeId, key: &str, arg: impl Into<Arg>) -> Result<()> {
        let node = self.node(id)?;
        let (args, mut kwargs) = (node.args.clone(), node.kwargs.clone());
        match kwargs.iter_mut().find(|(name, _)| &**name == key) {
            Some((_, value)) => *value = arg.into(),
            None => kwargs.push((Arc::from(key), arg.into())),
        }
        self.set_all_args(id, args, kwargs)
    }

    /// Replaces all arguments of `id`.
    pub(crate) fn set_all_args(
        &mut self,
        id: NodeId,
        args: SmallVec<[Arg; 2]>,
        kwargs: Kwargs,
    ) -> Result<()> {
        let node = self.node(id)?;
        match node.opcode() {
            OpCode::Placeholder | OpCode::GetAttr if !(args.is_empty() && kwargs.is_empty()) => {
                bail!(Argument, "%{} is a {} and takes no arguments", node.name(), node.opcode());
            }
            OpCode::Output if args.len() != 1 || !kwargs.is_empty() => {
                return Err(err!(
                    Argument,
                    "an output takes exactly one value, got {}",
                    args.len() + kwargs.len()
                )
                .help("return several values as one tuple"));
            }
            OpCode::CallMethod if args.is_empty() => {
                bail!(Argument, "the method %{} needs its first argument", node.name());
            }
            _ => {}
        }
        super::check_keywords(&kwargs)?;
        self.check_args_of(args.iter().chain(kwargs.iter().map(|(_, arg)| arg)), id)?;
        self.unlink_inputs(id);
        let node = self.get_mut(id);
        let args = std::mem::replace(&mut node.args, args);
        let kwargs = std::mem::replace(&mut node.kwargs, kwargs);
        self.link_inputs(id);
        self.log(|| Undo::Args { id, args, kwargs });
        Ok(())
    }

    /// Makes `id` call `op` instead, as a function or method as before. Fails if `id` is stale or calls no
    /// operation.
    pub fn set_op(&mut self, id: NodeId, op: Op) -> Result<()> {
        let target = match self.node(id)?.target() {
            Target::CallFunction(_) => Target::CallFunction(op),
            Target::CallMethod(_) => Target::CallMethod(op),
            _ => bail!(Graph, "%{} calls no operation", self.get(id).name()),
        };
        self.replace_target(id, target);
        Ok(())
    }

    /// Sets the path of a `get_attr` or `call_module` node. Fails if `id` is stale or has no path.
    pub fn set_path(&mut self, id: NodeId, path: &str) -> Result<()> {
        let target = match self.node(id)?.target() {
            Target::GetAttr(_) => Target::GetAttr(Arc::from(path)),
            Target::CallModule(_) => Target::CallModule(Arc::from(path)),
            _ => bail!(Graph, "%{} has no path", self.get(id).name()),
        };
        self.replace_target(id, target);
        Ok(())
    }

    /// Turns a method call into a function call. Fails if `id` is stale.
    pub fn method_to_function(&mut self, id: NodeId) -> Result<()> {
        if let Target::CallMethod(op) = *self.node(id)?.target() {
            self.replace_target(id, Target::CallFunction(op));
        }
        Ok(())
    }

    fn replace_target(&mut self, id: NodeId, target: Target) {
        let target = self.exchange_target(id, target);
        self.log(|| Undo::Target { id, target });
    }

    /// Replaces `old` by `new` in the arguments of `user`, at any nesting; returns whether it occurred. Fails
    /// if a handle is stale, or `new` is not defined before `user`.
    pub fn replace_input(&mut self, user: NodeId, old: NodeId, new: impl Into<Arg>) -> Result<bool> {
        let new = new.into();
        let node = self.node(user)?;
        let has_few = node.inputs().len() <= self.node(old)?.n_users();
        let occurs = match has_few {
            true => node.inputs().any(|input| input == old),
            false => self.get(old).users().any(|other| other == user),
        };
        if !occurs {
            return Ok(false);
        }
        if new.depth() == 0 {
            self.check_args_of(std::iter::once(&new), user)?;
            self.exchange_input(user, old, &new);
        } else {
            self.rewrite_input(user, old, &new)?;
        }
        Ok(true)
    }

    /// Replaces an input by an argument that holds others, for which all arguments are written anew.
    fn rewrite_input(&mut self, user: NodeId, old: NodeId, new: &Arg) -> Result<()> {
        let mut replace = |arg: &Arg| {
            arg.try_flat_map(&mut |leaf| Ok(if *leaf == old { new.clone() } else { Arg::Leaf(*leaf) }))
        };
        let node = self.get(user);
        let args = node.args.iter().map(&mut replace).collect::<Result<_>>()?;
        let kwargs =
            node.kwargs.iter().map(|(key, arg)| Ok((key.clone(), replace(arg)?))).collect::<Result<_>>()?;
        self.set_all_args(user, args, kwargs)
    }

    /// Makes every user of `old` use `new`, but for `new` itself; returns the changed users in program order.
    ///
    /// The time is proportional to the number of uses, however many other inputs the users have, unless `new`
    /// is a list or another argument that contains others. Fails, and changes nothing, if a user comes before
    /// `new`, which the error names, or a handle is stale.
    pub fn replace_all_uses(&mut self, old: NodeId, new: impl Into<Arg>) -> Result<Vec<NodeId>> {
        self.replace_uses_where(old, new, |_| true)
    }

    /// As [`replace_all_uses`](Self::replace_all_uses), for the users that `filter` accepts. Fails as that
    /// does.
    pub fn replace_uses_where(
        &mut self,
        old: NodeId,
        new: impl Into<Arg>,
        mut filter: impl FnMut(NodeId) -> bool,
    ) -> Result<Vec<NodeId>> {
        let new = new.into();
        let made_from: FxHashSet<NodeId> = new.leaves().into_iter().copied().collect();
        let users: Vec<NodeId> =
            self.users(old)?.into_iter().filter(|user| !made_from.contains(user) && filter(*user)).collect();
        for id in new.leaves() {
            self.node(*id)?;
            if let Some(user) =
                users.first().filter(|user| self.order.label(user.index) <= self.order.label(id.index))
            {
                bail!(
                    Graph,
                    "%{} cannot replace %{}: the user %{} comes before it",
                    self.get(*id).name(),
                    self.get(old).name(),
                    self.get(*user).name()
                );
            }
        }
        if new.depth() > 0 {
            return self.transaction(|graph| {
                users.iter().try_for_each(|user| graph.rewrite_input(*user, old, &new))?;
                Ok(users)
            });
        }
        if let Some(first) = users.first() {
            self.check_args_of(std::iter::once(&new), *first)?;
        }
        for user in &users {
            self.exchange_input(*user, old, &new);
        }
        Ok(users)
    }

    /// Puts a target in the place of another, which it returns, without a record in the journal.
    pub(super) fn exchange_target(&mut self, id: NodeId, target: Target) -> Target {
        let old = std::mem::replace(&mut self.get_mut(id).target, target.clone());
        self.readers.remove(&old, id);
        self.readers.add(&target, id);
        old
    }

    /// Removes a node without users. Fails if `id` is stale, has users, is the output, or is a placeholder
    /// inside a structured argument.
    pub fn erase(&mut self, id: NodeId) -> Result<()> {
        let node = self.node(id)?;
        if node.n_users() > 0 {
            let users = self.users(id)?;
            let names: Vec<String> =
                users.iter().take(5).map(|user| format!("%{}", self.get(*user).name())).collect();
            let more = if users.len() > 5 { format!(" and {} more", users.len() - 5) } else { String::new() };
            return Err(err!(
                Graph,
                "cannot erase %{}: it is used by {}{more}",
                self.get(id).name(),
                names.join(", ")
            )
            .help("replace its uses first, with `replace_all_uses`"));
        }
        match node.opcode() {
            OpCode::Output => {
                return Err(err!(Graph, "the output cannot be erased").help("use `set_output` to change it"));
            }
            OpCode::Placeholder => self.remove_input_of(id)?,
            _ => {}
        }
        if self.cursor == id {
            let next = self.id_at(self.order.next(id.index));
            let old = std::mem::replace(&mut self.cursor, next);
            self.log(|| Undo::Cursor(old));
        }
        let next = self.order.next(id.index);
        let next = (next != super::NIL).then(|| self.id_at(next));
        self.unlink_inputs(id);
        self.order.unlink(id.index);
        let node = self.slots[id.index].node.take().expect("checked to be live");
        self.names.release(&node.name);
        self.readers.remove(&node.target, id);
        self.free.push(id.index);
        self.log(|| Undo::Erase { id, node: Box::new(node), next });
        Ok(())
    }

    fn remove_input_of(&mut self, id: NodeId) -> Result<()> {
        let position = self.inputs.iter().position(|input| input.tree == Arg::Leaf(id)).ok_or_else(|| {
            err!(Graph, "cannot erase %{}: it is part of a structured argument", self.get(id).name())
        })?;
        let input = self.inputs.remove(position);
        self.log(|| Undo::RemoveInput { position, input });
        if self.last_placeholder == Some(id) {
            let prev = self.order.prev(id.index);
            let last = (prev != super::NIL).then(|| self.id_at(prev));
            let old = std::mem::replace(&mut self.last_placeholder, last);
            self.log(|| Undo::LastPlaceholder(old));
        }
        Ok(())
    }

    /// Calls `edit` with each distinct sub-graph among the arguments of this graph's nodes, and puts the ones
    /// that it changed, for which it returns true, in the place of the old. A sub-graph used at several
    /// places stays one.
    ///
    /// Only direct sub-graphs are visited: `edit` calls this method for those below. Fails with the first
    /// error of `edit`.
    pub fn edit_subgraphs(&mut self, edit: &mut dyn FnMut(&mut Graph) -> Result<bool>) -> Result<bool> {
        if self.depth == 0 {
            return Ok(false);
        }
        // The old graphs are kept, so that their addresses are not used again.
        let mut done: FxHashMap<usize, (Arc<Graph>, Option<Arc<Graph>>)> = FxHashMap::default();
        let mut any = false;
        for id in self.ids() {
            let mut changed = false;
            let node = self.get(id);
            if node.subgraphs().is_empty() {
                continue;
            }
            let mut rewrite = |arg: &Arg| {
                arg.try_rewrite(&mut |arg| match arg {
                    Arg::Leaf(id) => Ok(Some(Arg::Leaf(*id))),
                    Arg::Graph(old) => {
                        let key = Arc::as_ptr(old) as usize;
                        let new = match done.get(&key) {
                            Some((_, new)) => new.clone(),
                            None => {
                                let mut graph = Graph::clone(old);
                                let new = edit(&mut graph)?.then(|| Arc::new(graph));
                                done.insert(key, (old.clone(), new.clone()));
                                new
                            }
                        };
                        changed |= new.is_some();
                        Ok(new.map(Arg::from))
                    }
                    _ => Ok(None),
                })
            };
            let args = node.args.iter().map(&mut rewrite).collect::<Result<_>>()?;
            let kwargs = node
                .kwargs
                .iter()
                .map(|(key, arg)| Ok((key.clone(), rewrite(arg)?)))
                .collect::<Result<_>>()?;
            if changed {
                self.set_all_args(id, args, kwargs)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Removes the nodes without users and without effects, and returns how many.
    ///
    /// Placeholders stay, they are the signature, and so does what finds out a size that an argument names.
    /// Effects are declared by ops; a module call counts as one unless `module_is_pure` says otherwise.
    pub fn eliminate_dead_code(&mut self, module_is_pure: impl Fn(&str) -> bool) -> usize {
        let mut removed = 0;
        let mut named = NamedSizes::default();
        for id in self.ids().into_iter().rev() {
            let node = self.get(id);
            let is_needed =
                node.n_users() > 0 || is_impure(node, &module_is_pure) || named.has_of(self, node);
            if !is_needed && self.erase(id).is_ok() {
                removed += 1;
            } else {
                named.note(self.get(id));
            }
        }
        removed
    }

    /// Moves `id` to just before `next`. Fails if a handle is stale, an input would come after the node, a
    /// user would come before it, or the node is a placeholder or the output.
    pub fn move_before(&mut self, id: NodeId, next: NodeId) -> Result<()> {
        self.node(next)?;
        let node = self.node(id)?;
        if id == next {
            return Ok(());
        }
        if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
            bail!(Graph, "%{} cannot be moved: a {} keeps its place", node.name(), node.opcode());
        }
        let target = self.order.label(next.index);
        if self.get(next).opcode() == OpCode::Placeholder {
            bail!(
                Graph,
                "%{} cannot be moved before the placeholder %{}",
                node.name(),
                self.get(next).name()
            );
        }
        for input in node.inputs() {
            if self.order.label(input.index) >= target {
                let input = self.get(input).name();
                bail!(Graph, "%{} cannot be moved: its input %{input} would come after it", node.name());
            }
        }
        for user in node.users() {
            if self.order.label(user.index) < target {
                let user = self.get(user).name();
                bail!(Graph, "%{} cannot be moved: its user %{user} would come before it", node.name());
            }
        }
        let old_next = self.order.next(id.index);
        let old_next = (old_next != super::NIL).then(|| self.id_at(old_next));
        if self.cursor == id {
            let new = old_next.expect("only the output has no successor, and it is not moved");
            let old = std::mem::replace(&mut self.cursor, new);
            self.log(|| Undo::Cursor(old));
        }
        self.order.unlink(id.index);
        self.order.insert_before(id.index, next.index);
        self.log(|| Undo::Move { id, next: old_next });
        Ok(())
    }

    /// Moves `id` to just after `previous`. Fails if `previous` is the output, or as
    /// [`move_before`](Self::move_before) does.
    pub fn move_after(&mut self, id: NodeId, previous: NodeId) -> Result<()> {
        if id == previous {
            self.node(id)?;
            return Ok(());
        }
        match self.next(previous)? {
            Some(next) if next == id => Ok(()),
            Some(next) => self.move_before(id, next),
            None => bail!(Graph, "nothing can come after the output"),
        }
    }

    /// Gives `id` a name made from `hint`, and returns it. Fails if `id` is stale.
    pub fn rename(&mut self, id: NodeId, hint: &str) -> Result<Arc<str>> {
        let old = self.node(id)?.name.clone();
        if &*old == hint {
            return Ok(old);
        }
        self.names.release(&old);
        let (name, claim) = self.names.claim(hint, id);
        self.get_mut(id).name = name.clone();
        self.log(|| Undo::Rename { id, old, claim });
        Ok(name)
    }

    /// Names every node anew, in program order, after what `hint` says for it; a node for which it says
    /// nothing keeps its name. The names depend on the hints only, not on the names before. Returns whether
    /// any name is another one.
    pub fn rename_all(&mut self, hint: &mut dyn FnMut(&Node) -> Option<Cow<'_, str>>) -> bool {
        let mut names = Namespace::default();
        names.reserve(self.len());
        let mut hints = Vec::with_capacity(self.len());
        for (id, node) in self.nodes() {
            match hint(node) {
                Some(hint) => hints.push((id, hint)),
                None => names.set(&node.name, id),
            }
        }
        let mut new = Vec::with_capacity(hints.len());
        for (id, hint) in hints {
            let (name, _) = names.claim(&hint, id);
            if name != self.get(id).name {
                new.push((id, name));
            }
        }
        if new.is_empty() {
            return false;
        }
        let swap = |graph: &mut Graph, (id, name)| (id, std::mem::replace(&mut graph.get_mut(id).name, name));
        let old: Vec<(NodeId, Arc<str>)> = new.into_iter().map(|pair| swap(self, pair)).collect();
        let names = Box::new(std::mem::replace(&mut self.names, names));
        self.log(|| Undo::Names { names, old });
        true
    }

    /// Returns the facts about `id` for changing. Fails if `id` is stale.
    pub fn meta_mut(&mut self, id: NodeId) -> Result<&mut NodeMeta> {
        self.node(id)?;
        if self.journal.as_ref().is_some_and(|journal| !journal.has_meta(id)) {
            let meta = Box::new(self.get(id).meta.clone());
            self.log(|| Undo::Meta { id, meta });
        }
        Ok(&mut self.get_mut(id).meta)
    }

    /// Returns the node before which new nodes are inserted.
    pub fn cursor(&self) -> NodeId {
        self.cursor
    }

    /// Runs `build` with the cursor before `id`, and puts the cursor back. Fails if `id` is stale or a
    /// placeholder before which nothing else can stand.
    pub fn inserting_before<T>(&mut self, id: NodeId, build: impl FnOnce(&mut Graph) -> T) -> Result<T> {
        if self.node(id)?.opcode() == OpCode::Placeholder {
            bail!(Graph, "nothing but placeholders can come before the placeholder %{}", self.get(id).name());
        }
        Ok(self.with_cursor(id, build))
    }

    /// Runs `build` with the cursor after `id`, and puts the cursor back. After a placeholder means after all
    /// of them. Fails if `id` is stale or the output.
    pub fn inserting_after<T>(&mut self, id: NodeId, build: impl FnOnce(&mut Graph) -> T) -> Result<T> {
        let mut next = self.next(id)?;
        while let Some(node) = next.filter(|node| self.get(*node).opcode() == OpCode::Placeholder) {
            next = self.next(node)?;
        }
        let Some(next) = next else { bail!(Graph, "nothing can come after the output") };
        Ok(self.with_cursor(next, build))
    }

    fn with_cursor<T>(&mut self, cursor: NodeId, build: impl FnOnce(&mut Graph) -> T) -> T {
        struct Restore<'a>(&'a mut Graph, NodeId);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                let cursor = if self.0.contains(self.1) { self.1 } else { self.0.output };
                let old = std::mem::replace(&mut self.0.cursor, cursor);
                self.0.log(|| Undo::Cursor(old));
            }
        }
        let old = std::mem::replace(&mut self.cursor, cursor);
        self.log(|| Undo::Cursor(old));
        let restore = Restore(self, old);
        build(&mut *restore.0)
    }
}

impl Graph {
    /// Returns whether the graph computes its outputs and does nothing else: no node, also of a sub-graph, acts
    /// on the world or on state, draws random numbers, or calls a module.
    pub fn is_pure(&self) -> bool {
        let is_effect = |node: &crate::Node| {
            !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) && is_impure(node, &|_| false)
        };
        !self.nodes().any(|(_, node)| is_effect(node))
    }
}

/// Returns whether a node must be kept although nobody uses it.
pub(crate) fn is_impure(node: &crate::Node, module_is_pure: &dyn Fn(&str) -> bool) -> bool {
    match node.target() {
        Target::Placeholder | Target::Output => true,
        Target::GetAttr(_) => false,
        Target::CallModule(path) => !module_is_pure(path),
        Target::CallFunction(op) | Target::CallMethod(op) => {
            !op.effects.is_pure()
                || node.subgraphs().iter().any(|graph| {
                    graph.nodes().any(|(_, inner)| {
                        !matches!(inner.opcode(), OpCode::Placeholder | OpCode::Output)
                            && is_impure(inner, module_is_pure)
                    })
                })
        }
    }
}
