import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { eventLogContract } from './contract.ts'

eventLogContract('in memory', async () => openMemoryLog())
