// The code of the panel of a queue, loaded when the first is opened.
export { rememberedLook as lookOf, savedLook as saved } from './look';
export { QueuePanelView as View } from './view';
