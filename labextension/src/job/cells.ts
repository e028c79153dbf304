// Geometry of the grid of tasks: the position of each cell, and the cell at a point or after a key
// press. No I/O.

const LARGEST_PX = 20;
const SMALLEST_PX = 4;

export interface Layout {
  count: number;
  /** The width of a cell and the gap after it. */
  pitch: number;
  columns: number;
  rows: number;
}

/**
 * Return the layout with the largest cells that fit into the box. The smallest cells may need more
 * rows.
 */
export function layoutOf(count: number, width: number, height: number): Layout {
  let pitch = LARGEST_PX;
  let layout = ofPitch(count, width, pitch);
  while (layout.rows * pitch > height && pitch > SMALLEST_PX) {
    pitch -= 1;
    layout = ofPitch(count, width, pitch);
  }
  return layout;
}

function ofPitch(count: number, width: number, pitch: number): Layout {
  const columns = Math.max(1, Math.floor(width / pitch));
  return { count, pitch, columns, rows: Math.ceil(count / columns) };
}

/** Return the upper left corner of a cell. */
export function cornerOf({ pitch, columns }: Layout, place: number): { x: number; y: number } {
  return { x: (place % columns) * pitch, y: Math.floor(place / columns) * pitch };
}

/** Return the place of the cell at this point; null outside all cells. */
export function placeAt({ count, pitch, columns }: Layout, x: number, y: number): number | null {
  const column = Math.floor(x / pitch);
  const place = Math.floor(y / pitch) * columns + column;
  return x >= 0 && y >= 0 && column < columns && place < count ? place : null;
}

/** Return the place after a key press; null if the key does not move. */
export function moved({ count, columns, rows }: Layout, place: number, key: string): number | null {
  const page = columns * Math.max(1, Math.floor(rows / 4));
  const places: Record<string, number> = {
    ArrowRight: place + 1,
    ArrowLeft: place - 1,
    ArrowDown: place + columns,
    ArrowUp: place - columns,
    PageDown: place + page,
    PageUp: place - page,
    Home: 0,
    End: count - 1
  };
  const wanted = places[key];
  if (wanted === undefined) {
    return null;
  }
  const stays = (key === 'ArrowDown' && wanted >= count) || (key === 'ArrowUp' && wanted < 0);
  return stays ? place : Math.min(count - 1, Math.max(0, wanted));
}
