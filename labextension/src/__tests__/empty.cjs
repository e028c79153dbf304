// An empty module in place of style sheets and icons.
module.exports = '<svg xmlns="http://www.w3.org/2000/svg"/>';
