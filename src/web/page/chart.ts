import type { SpeedView } from '../view.ts'
import { byId, setAttribute, setText } from './elements.ts'

const WIDTH = 300
const HEIGHT = 100
/** Room for the line at the edges. */
const INSET = 1

/** Draws the speed of the last minutes. */
export function showSpeed(speed: SpeedView | undefined): void {
  byId('speed', HTMLElement).hidden = speed === undefined
  if (speed === undefined) return
  setText(byId('speed-up', HTMLElement), speed.upText)
  setText(byId('speed-down', HTMLElement), speed.downText)
  setText(byId('speed-scale', HTMLElement), speed.scaleText)
  setAttribute(byId('chart', SVGElement), 'aria-label', speed.summary)
  draw('up', speed, 1)
  draw('down', speed, 2)
}

function draw(name: 'up' | 'down', { points, spanS, scale }: SpeedView, at: 1 | 2): void {
  const spots = points.map((point) => {
    const x = WIDTH * (1 - point[0] / spanS)
    const y = HEIGHT - INSET - (HEIGHT - 2 * INSET) * Math.min(1, point[at] / scale)
    return `${x.toFixed(1)} ${y.toFixed(1)}`
  })
  const line = spots.length < 2 ? '' : `M${spots.join('L')}`
  const [first = '', last = ''] = [spots[0], spots.at(-1)].map((spot) => spot?.split(' ')[0])
  setAttribute(byId(`${name}-line`, SVGPathElement), 'd', line)
  const area = line === '' ? '' : `${line}L${last} ${HEIGHT}L${first} ${HEIGHT}Z`
  setAttribute(byId(`${name}-area`, SVGPathElement), 'd', area)
}
