import { startLocalService } from '../../src/local-service/server.ts'
import { silentLogger } from '../../src/domain/logger.ts'
import type { FileRecordWire } from '../../src/service/wire.ts'

/** A service of its own process whose listing has many records: `large-listing.js DIR TOKEN COUNT`. */
const [, , dataDir = '', token = '', count = '0'] = process.argv
const records = Array.from({ length: Number(count) }, (_, number): FileRecordWire => {
  return {
    filename: `document ${String(number).padStart(7, '0')} of a large account.txt`,
    size: number,
    uploaded_at: 1_700_000_000 + number,
    description: 'one of many',
    bag_id: number.toString(16).padStart(64, '0'),
  }
})
const service = await startLocalService(
  { dataDir, tokens: [token], extraRecords: () => records },
  { log: silentLogger },
)
console.log(service.url)
process.once('SIGTERM', () => {
  service.close().catch((error: unknown) => {
    console.error(error)
    process.exitCode = 1
  })
})
