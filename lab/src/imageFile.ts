/** Reading image files, made smaller where they would weigh the notebook down. */

/** Larger files are scaled before they go into the shared notebook (bytes). */
const HEAVY = 1_500_000;

/** Longest side of what was scaled (pixels); models look at no more. */
const SIDE = 1568;

export interface IImageContent {
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
}

/**
 * The image of a file.
 *
 * @throws If the browser cannot read it as an image.
 */
export async function fittingImage(file: File): Promise<IImageContent> {
  const bitmap = await createImageBitmap(file);
  try {
    const light = file.size <= HEAVY && /^image\/(png|jpeg)$/.test(file.type);
    return await encoded(light ? file : await scaled(bitmap, file.type));
  } finally {
    bitmap.close();
  }
}

async function scaled(bitmap: ImageBitmap, type: string): Promise<Blob> {
  const share = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * share));
  canvas.height = Math.max(1, Math.round(bitmap.height * share));
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const kind = type === 'image/jpeg' ? 'image/jpeg' : 'image/png';
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      blob => (blob ? resolve(blob) : reject(new Error('no image'))),
      kind,
      0.9
    )
  );
}

function encoded(blob: Blob): Promise<IImageContent> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const [head, data] = String(reader.result).split(',', 2);
      const mediaType = /^data:([\w/+.-]+)/.exec(head)?.[1] ?? blob.type;
      resolve({ mediaType, data: data ?? '' });
    };
    reader.readAsDataURL(blob);
  });
}
