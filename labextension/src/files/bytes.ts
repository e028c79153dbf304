// Conversions between bytes, base64 and text. No I/O.

/** Maximum number of arguments of a call. */
const PIECE = 0x8000;

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
}

export function base64Of(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += PIECE) {
    pieces.push(String.fromCharCode(...bytes.subarray(at, at + PIECE)));
  }
  return btoa(pieces.join(''));
}

/** Return the text; null if it is not UTF-8. A byte order mark is kept. */
export function textOf(base64: string): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytesOf(base64));
  } catch {
    return null;
  }
}
