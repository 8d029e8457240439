//! Directories of links to sessions, in little memory: there may be very many, and each stands in two of them.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

/// Which session a link leads to, by its number among all of them.
pub(super) type Session = u32;

/// Directories of links by name.
pub(in crate::tree) type Directories = BTreeMap<Arc<str>, Links>;

/// The links of one directory, sorted by name.
#[derive(Debug)]
pub(in crate::tree) struct Links {
    /// Their names, one behind the other.
    names: Box<str>,
    /// Where each name ends, and where the link leads.
    links: Box<[(u32, Session)]>,
}

impl Links {
    /// These links, each under its name, or where one before it has that, under the first free `~2`, `~3`.
    pub(super) fn of(links: impl Iterator<Item = (String, Session)>) -> Self {
        let mut sorted = BTreeMap::new();
        for (name, session) in links {
            put(&mut sorted, &name, session);
        }
        let mut names = String::with_capacity(sorted.keys().map(|name| name.len()).sum());
        let link = |(name, session): (Box<str>, Session)| {
            names.push_str(&name);
            // Names are short, and no store has so many sessions that theirs together are longer than that.
            (names.len() as u32, session)
        };
        let links = sorted.into_iter().map(link).collect();
        Self {
            names: names.into_boxed_str(),
            links,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.links.len()).map(|at| self.name(at))
    }

    /// The sessions that they lead to.
    pub(super) fn sessions(&self) -> impl Iterator<Item = Session> {
        self.links.iter().map(|(_, session)| *session)
    }

    /// Where the link of this name leads.
    pub(super) fn find(&self, name: &str) -> Option<Session> {
        let (mut first, mut end) = (0, self.links.len());
        while first < end {
            let middle = first.midpoint(end);
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Equal => return Some(self.links[middle].1),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        None
    }

    fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.links[before].0);
        &self.names[start as usize..self.links[at].0 as usize]
    }
}

fn put(links: &mut BTreeMap<Box<str>, Session>, name: &str, session: Session) {
    let mut free = name.to_owned();
    for ordinal in 2_u64.. {
        if let btree_map::Entry::Vacant(vacant) = links.entry(free.into()) {
            vacant.insert(session);
            return;
        }
        free = format!("{name}~{ordinal}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_is_found_under_its_name() {
        let names = ["b", "a", "", "b", "b~2", "b"];
        let links = Links::of(names.into_iter().map(str::to_owned).zip(0..));
        let sorted: Vec<&str> = links.names().collect();
        assert_eq!(sorted, ["", "a", "b", "b~2", "b~2~2", "b~3"]);
        let found = sorted.iter().map(|name| links.find(name).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), [2, 1, 0, 3, 4, 5]);
        assert!(links.sessions().eq([2, 1, 0, 3, 4, 5]));
        assert_eq!(links.find("c"), None);
        assert_eq!(links.find("ab"), None);
    }
}
