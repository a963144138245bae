import fc from 'fast-check'

/**
 * Properties are tried with the same values each time, so that a red build is somebody's change.
 * BAGFS_SEED=0 picks others; a failure prints its seed.
 */
const chosen = Number(process.env['BAGFS_SEED'] ?? 20_261_120)
if (chosen !== 0) fc.configureGlobal({ seed: chosen })
