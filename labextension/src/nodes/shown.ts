// The code of the panel of nodes, loaded when the first is opened.
export { rememberedLook as lookOf, savedLook as saved } from './look';
export { NodesPanelView as View } from './view';
