/**
 * Maps items in their order, with up to `count` of them being worked on at a time. When one fails, or
 * the reader leaves, those under way are waited for, so that nothing goes on behind the reader's back.
 */
export async function* ahead<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  count: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const pending: Promise<Result>[] = []
  try {
    for await (const item of items) {
      pending.push(startQuietly(work, item))
      const first = pending.length >= count ? pending.shift() : undefined
      if (first !== undefined) yield await first
    }
    for (let first = pending.shift(); first !== undefined; first = pending.shift()) {
      yield await first
    }
  } finally {
    await Promise.allSettled(pending)
  }
}

/** A rejection is seen when its turn comes; until then it must not count as unhandled. */
function startQuietly<Item, Result>(
  work: (item: Item) => Promise<Result>,
  item: Item,
): Promise<Result> {
  const result = work(item)
  result.catch(() => undefined)
  return result
}
