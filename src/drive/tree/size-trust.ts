/** How long a kernel may go by a size that it heard before, in ms: it appends there, and asks for no other. */
export const SIZE_TRUSTED_MS = 2_000
